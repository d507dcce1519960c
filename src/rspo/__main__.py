"""The program `rspo`, and `python -m rspo`: it only loads the command line, for Ctrl-C may come
before that is done."""

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
    # All is kept. To take down the interpreter under threads that still compute may crash.
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(interrupt.CODE)


if __name__ == "__main__":
    main()
