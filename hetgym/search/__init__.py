"""Search: plans that change a little at a time, within a budget.

* A :class:`Search` runs within budgets of work or time, as :func:`anytime` shows.
* Under the classic model a plan is changed by :mod:`~hetgym.search.walk` and :mod:`~hetgym.search.moves`; under any
  runtime by :mod:`~hetgym.search.course`, which prices a change, and :mod:`~hetgym.search.regions`, which proposes one.

Everything loads when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetgym._lazy import lazy

if TYPE_CHECKING:
    from hetgym.search import course as course
    from hetgym.search import moves as moves
    from hetgym.search import regions as regions
    from hetgym.search import walk as walk
    from hetgym.search.budgets import anytime as anytime
    from hetgym.search.search import Search as Search

lazy(__name__)
