"""The process of one job: `python -m rspo.bench.work`, with the task as one line of JSON on its
standard input.

That pipe stays open while the parent lives. When it closes, nobody waits for the result any more,
and the job may be restarted elsewhere: the process ends at once, and leaves its last checkpoint.
"""

import contextlib
import json
import os
import sys
import threading
from typing import NoReturn

from rspo.core import interrupt
from rspo.errors import RspoError


def main() -> NoReturn:
    interrupt.own_process()
    task = json.loads(sys.stdin.readline())
    threading.Thread(target=_watch, name="rspo-parent", daemon=True).start()
    from rspo.bench.jobs import carry_out

    try:
        code = interrupt.CODE if carry_out(task) is None else 0
    except RspoError as error:
        print(error, file=sys.stderr)
        code = error.exit_code
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.flush()
    # Shutting down the interpreter while threads compute may crash.
    os._exit(code)


def _watch() -> None:
    sys.stdin.read()
    interrupt.end_at_once()


if __name__ == "__main__":
    main()
