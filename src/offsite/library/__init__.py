"""offsite for Python programs: the uses behind the commands, with the same names for options.

Importing the package is cheap; the working modules are imported on demand.
"""
