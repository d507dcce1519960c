"""What a user mistypes, one mistake a line: both type checkers must find every one."""

import rspo

reveal_type(rspo.discover)  # noqa: F821
rspo.discover("four-goals-easy", itertions=4)
rspo.discover("four-goals-easy", ppo={"updtes": 4})
rspo.discover("four-goals-easy", ppo={"padding": "dorp"})
rspo.discover("four-goals-easy", seed="zero")
rspo.dicsover("four-goals-easy")
rspo.load("runs/goals")[0].actt([0.0])
rspo.discover("four-goals-easy", on_update=3)
