"""The program `rspo`, and `python -m rspo`: it handles Ctrl-C while the command line loads."""

import contextlib
import os
import sys
from typing import NoReturn

from rspo.core import interrupt


def main() -> NoReturn:
    interrupt.own_process()
    from rspo.cli import main as cli

    try:
        cli.main()
    except SystemExit as end:
        if end.code != interrupt.CODE:
            raise
    except OSError:
        if not interrupt.asked():  # else the terminal is gone
            raise
    # Everything is saved. Shutting down the interpreter while threads compute may crash.
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(interrupt.CODE)


if __name__ == "__main__":
    main()
