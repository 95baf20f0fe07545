"""offsite for Python programs: the same services that the commands call, with the same names for options.

Importing it is cheap; what does the work is imported when it is asked for.
"""
