"""`python -m offsite` is the command `offsite`."""

from offsite.cli.main import main

if __name__ == "__main__":
    main()
