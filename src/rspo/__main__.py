"""The program `rspo`, and `python -m rspo`: it only loads the command line, for Ctrl-C may come before that is done."""

import sys
from typing import NoReturn


def main() -> NoReturn:
    try:
        from rspo import cli
    except KeyboardInterrupt:
        sys.exit(130)
    cli.main()


if __name__ == "__main__":
    main()
