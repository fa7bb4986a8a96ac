"""``python -m constructs_optim``: the ``constructs-optim`` command, where it is not on the path."""

from constructs_optim.cli import main

if __name__ == "__main__":
    main()
