"""offsite for Python programs: the same services that the commands call, and the same words for what is asked.

Importing it is cheap; what does the work is imported when it is asked for.
"""
