"""The table of heuristics and searches: a row for each, in which the function is named and not imported.

To add a heuristic, write its function to a file of this folder and enter a row here.
"""

from dataclasses import replace
from typing import Any

from hetgym.planning.baseline import Baseline

_TOPCUOGLU = "Topcuoglu, Hariri, Wu, IEEE TPDS 13(3), 2002"
_LIN = "Lin, Li, Jia, Liu, An, J. Comput. Sci. Technol. 34(5), 2019"
_MAHESWARAN = "Maheswaran, Ali, Siegel, Hensgen, Freund, J. Parallel Distrib. Comput. 59(2), 1999"
_SILBERSCHATZ = "Silberschatz, Galvin, Gagne, Operating System Concepts, chapter on CPU scheduling"
_HAUPT = "Haupt, OR Spektrum 11(1), 1989, a survey of priority rules"
_IBARRA = "Ibarra, Kim, J. ACM 24(2), 1977"
_JEON = "Jeon, Cai, Srivastava, Jiang, Ke, Meng, Xie, Gupta, Baechi, SoCC 2020"
_SHANG = "Shang, Jiang, Li, Zhu, J. Comput. Appl. 43(9), 2023"
_PARTS = f"{_SHANG}; the rules for key operators and growth are hetgym's"
_SIH = "Sih, Lee, IEEE TPDS 4(2), 1993"
_KIRKPATRICK = "Kirkpatrick, Gelatt, Vecchi, Science 220, 1983; decoding after HEFT"
_ARABNEJAD = "Arabnejad, Barbosa, IEEE TPDS 25(3), 2014"
_DUIN = "Duin, Voss, Networks 34(3), 1999 (pilot method); completion after HEFT and PEFT"
_LEE = "Lee, Zomaya, IEEE TPDS 22(8), 2011 (energy beside time); Kimura et al., IEEE Cluster 2006 (slack)"

_GAPS = "O(e p + n log n), gaps aside"
_READY = "O(n r + e p), r ready at a time"
_QUEUE = "O(n r log n + e p), r ready at a time"
_TRIALS = "O(trials (e + n)), less where trials end early"


def _row(
    name: str,
    kind: str,
    function: str,
    citation: str,
    complexity: str,
    needs: tuple[str, ...] = (),
    search: str | None = None,
    model: str = "classic",
    models: dict[str, str] | None = None,
    aliases: dict[str, str] | None = None,
    **options: Any,
) -> Baseline:
    """A row; functions and searches are named as ``"folder.file:name"`` within hetgym."""
    begin, models, aliases = f"hetgym.{search}" if search else None, models or {}, aliases or {}
    row = Baseline(name, kind, f"hetgym.{function}", citation, complexity, options, needs, begin)
    return replace(row, model=model, models=models, aliases=aliases)


ROWS: tuple[Baseline, ...] = (
    _row("energy-heft", "energy", "baselines.energy:energy_heft", _LEE, "O(e p + s (n + e)), s steps of clocks"),
    _row("slack-heft", "energy", "baselines.energy:energy_heft", _LEE, "O(e p + s (n + e)), as above", weight=0.0),
    _row("random", "trivial", "baselines.trivial:random_placement", "control", "O(n p)"),
    _row("round-robin", "trivial", "baselines.trivial:round_robin", "control", "O(n p)"),
    _row("single-device", "trivial", "baselines.trivial:single_device", "the default of every framework", "O(n p)"),
    _row(
        "donf",
        "online",
        "baselines.donf:donf",
        f"{_LIN}; ranks of HEFT and PEFT in its loop: this package",
        "O(n log n + e p + n p^2)",
        model="donf",
        models={"communication=classic": "classic"},
        aliases={
            "adon": "priority=nested",
            "donf2": "priority=two-level",
            "donf-classic": "communication=classic",
            "donf-l": "communication=light",
            "donf-w": "communication=link-wait",
            "fifo-donf": "communication=link-wait:priority=none",
            "heft-donf": "communication=link-wait:priority=upward",
        },
    ),
    _row("fcfs", "online", "baselines.queueing:fcfs", _SILBERSCHATZ, _QUEUE, aliases={"fifo": ""}),
    _row(
        "graham",
        "online",
        "baselines.graham:graham",
        "Graham, SIAM J. Appl. Math. 17(2), 1969",
        "O(n (p + log n) + e p)",
    ),
    _row("mct", "online", "baselines.online:mct", _MAHESWARAN, "O(e p + n log n)"),
    _row("met", "online", "baselines.online:met", _MAHESWARAN, "O(e p + n log n)"),
    _row("mor", "online", "baselines.queueing:mor", _HAUPT, _QUEUE),
    _row("mwkr", "online", "baselines.queueing:mwkr", _HAUPT, _QUEUE),
    _row("olb", "online", "baselines.online:olb", _MAHESWARAN, "O(e p + n log n)"),
    _row("sjf", "online", "baselines.queueing:sjf", _SILBERSCHATZ, _QUEUE, aliases={"spt": ""}),
    _row("bil", "list", "baselines.bil:bil", "Oh, Ha, Euro-Par 1996", "O(n r p min(r, p) + e p^2), r ready at a time"),
    _row(
        "bsa", "list", "baselines.bsa:bsa", "Kwok, Ahmad, Cluster Comput. 3(2), 2000", "O(e p^2 + n log n), gaps aside"
    ),
    _row("cpop", "list", "baselines.cpop:cpop", _TOPCUOGLU, _GAPS),
    _row("dls", "list", "baselines.dls:dls", _SIH, _READY),
    _row(
        "dps",
        "list",
        "baselines.dps:dps",
        "Coleman, Krishnamachari, SAGA (github.com/ANRGUSC/saga), which names no paper",
        _GAPS,
    ),
    _row(
        "duplex",
        "list",
        "baselines.batch_mode:duplex",
        "Braun et al., J. Parallel Distrib. Comput. 61(6), 2001",
        _READY,
    ),
    _row("etf", "list", "baselines.etf:etf", "Hwang, Chow, Anger, Lee, SIAM J. Comput. 18(2), 1989", _READY),
    _row("fcp", "list", "baselines.fast:fcp", "Radulescu, van Gemund, ICS 1999", "O(n (p + log n) + e)"),
    _row("flb", "list", "baselines.fast:flb", "Radulescu, van Gemund, ICPP 1999", "O(n (p + log n) + e)"),
    _row("gdl", "list", "baselines.dls:gdl", _SIH, "O(n r + e p + n p^2), r ready at a time"),
    _row(
        "hbmct",
        "list",
        "baselines.hbmct:hbmct",
        "Sakellariou, Zhao, HCW 2004",
        "O(e p + n log n), and O(g p log g) for each move in a group of g",
    ),
    _row("hcpt", "list", "baselines.hcpt:hcpt", "Hagras, Janecek, ICPP Workshops 2003", "O(e (p + log n)), gaps aside"),
    _row("heft", "list", "baselines.heft:heft", _TOPCUOGLU, _GAPS),
    _row("ilha", "list", "baselines.ilha:ilha", "Beaumont, Boudet, Robert, HCW 2002", _GAPS),
    _row(
        "lookahead-heft",
        "list",
        "baselines.lookahead:lookahead_heft",
        "Bittencourt, Sakellariou, Madeira, Euromicro PDP 2010",
        "O(e p^2 + n log n), gaps aside",
    ),
    _row("max-min", "list", "baselines.batch_mode:max_min", _IBARRA, _READY),
    _row(
        "mh",
        "list",
        "baselines.mapping_heuristic:mapping_heuristic",
        "El-Rewini, Lewis, J. Parallel Distrib. Comput. 9(2), 1990",
        _GAPS,
    ),
    _row("min-min", "list", "baselines.batch_mode:min_min", _IBARRA, _READY),
    _row("peft", "list", "baselines.peft:peft", _ARABNEJAD, "O(e p^2 + n log n), gaps aside"),
    _row(
        "peft-again",
        "list",
        "baselines.peft:peft",
        f"{_ARABNEJAD}; further passes: hetgym",
        "O(e p^2 + n log n), gaps aside, three times",
        passes=3,
    ),
    _row("pets", "list", "baselines.pets:pets", "Ilavarasan, Thambidurai, Mahilmannan, ISPDC 2005", _GAPS),
    _row("sufferage", "list", "baselines.batch_mode:sufferage", _MAHESWARAN, _READY),
    _row(
        "donf-m",
        "memory",
        "baselines.donf_memory:donf_memory",
        f"{_LIN}; its author's simulator has the variant",
        "O(n (b log n + p^2) + e p), b blocked at a time; O(r e) more where memory is full, r ready",
        model="donf",
    ),
    _row("m-etf", "memory", "baselines.baechi:m_etf", _JEON, "O(n r p + e p) for r ready operators"),
    _row(
        "m-sct",
        "memory",
        "baselines.m_sct:m_sct",
        _JEON,
        "O(n r p + e p), and a linear program of n + e variables",
        needs=("scipy",),
    ),
    _row("m-topo", "memory", "baselines.baechi:m_topo", _JEON, "O(n p + e)"),
    _row(
        "cpgc-partition",
        "partition",
        "baselines.key_operators:cpgc_partition",
        _PARTS,
        "O(n log n + e p), and CPGC on the parts",
    ),
    _row(
        "duet",
        "partition",
        "baselines.duet:duet",
        "Zhang, Hu, Li, IPDPS 2021; steps read from its abstract",
        "O(rounds m^2 p (e p + m log m)) for m subgraphs",
    ),
    _row(
        "key-operators", "partition", "baselines.key_operators:cpgc_partition", _PARTS, "O(n log n + e p)", inner="heft"
    ),
    _row(
        "annealing",
        "search",
        "baselines.annealing:annealing",
        _KIRKPATRICK,
        _TRIALS,
        search="baselines.annealing:Annealing",
        aliases={"pilot-annealing": "start=pilot"},
    ),
    _row(
        "cpgc",
        "search",
        "baselines.cpgc:cpgc",
        f"{_SHANG}; correction after DUET (Zhang, Hu, Li, IPDPS 2021)",
        "O(rounds chain p (e p + n log n))",
    ),
    _row(
        "lns",
        "search",
        "baselines.lns:lns",
        "Shaw, CP 1998 (large-neighbourhood search); pieces and prices of region-annealing",
        _TRIALS,
        search="baselines.lns:Lns",
    ),
    _row(
        "region-annealing",
        "search",
        "baselines.region_annealing:region_annealing",
        _KIRKPATRICK.replace("decoding after HEFT", "regions and prices under any runtime: hetgym"),
        _TRIALS,
        search="baselines.region_annealing:annealing",
    ),
    _row(
        "pilot",
        "search",
        "baselines.pilot:pilot",
        _DUIN,
        "O(n p (e p + n log n))",
        search="baselines.pilot:Pilot",
        aliases={
            "pilot-append": "completion=append",
            "pilot-append-eft": "completion=append:optimistic=false",
            "pilot-eft": "optimistic=false",
        },
    ),
    _row(
        "rand-heft",
        "search",
        "baselines.rand_heft:rand_heft",
        f"randomised list scheduling around {_TOPCUOGLU}",
        "O(trials (e p + n log n))",
        search="baselines.rand_heft:RandHeft",
    ),
    _row(
        "tabu",
        "search",
        "baselines.tabu:tabu",
        "Nowicki, Smutnicki, Management Science 42(6), 1996; moves of Balas, Vazacopoulos, ibid. 44(2), 1998",
        "O(trials (e + n)), and the changes of a longest path",
        search="baselines.tabu:Tabu",
    ),
    _row(
        "cp-sat",
        "exact",
        "baselines.exact:cp_sat",
        "Perron, Didier, Gay, CP 2023 (the solver); model of unrelated devices with transfers: this package",
        "exponential; proves most problems of 40 operators in seconds",
        needs=("ortools",),
    ),
)
