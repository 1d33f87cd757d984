"""The paper's results (arXiv 2406.04815, NeurIPS 2024): tables 1 and 2, and the appendix's paired t-tests.

Five seeds, 1.6 million environment steps, 100 episodes; success on Panda, average return elsewhere.
"""

from __future__ import annotations

from typing import NamedTuple

SETS = ("training", "moderate", "extreme")
SOURCE = "arXiv 2406.04815: five seeds, 1.6 million environment steps, 100 episodes"
SPREAD = {
    "panda": "its ± is the deviation across the set's tasks, not seeds, as the published raw data show (across seeds "
    "the mean deviates by 0.01 to 0.08)",
}
"""The meaning of the number after the ±, if it is not the standard deviation across seeds."""


class Reported(NamedTuple):
    """A cell of the paper's tables."""

    mean: float
    spread: float
    """The number after the ±; see `SPREAD`."""


def reported(env: str, title: str, task_set: str) -> Reported | None:
    """Return the paper's result of a method, by its title; None if the paper has none."""
    cells = _RESULTS.get(env, {}).get(title)
    return Reported(*cells[SETS.index(task_set)]) if cells and task_set in SETS else None


def reported_p(env: str, x: str, y: str, task_set: str) -> float | None:
    """Return the paper's p of a paired t-test of x - y, by titles; None if the paper has none."""
    if env not in _P_VALUES or (x, y) not in _P_PAIRS or task_set not in SETS:
        return None
    return _P_VALUES[env][_P_PAIRS.index((x, y))][SETS.index(task_set)]


_RESULTS: dict[str, dict[str, tuple[tuple[float, float], ...]]] = {
    "panda": {
        "PEARL": ((0.42, 0.19), (0.10, 0.06), (0.11, 0.05)),
        "TESAC": ((0.50, 0.22), (0.31, 0.20), (0.22, 0.21)),
        "CCM": ((0.80, 0.19), (0.49, 0.23), (0.29, 0.28)),
        "SaTESAC": ((0.92, 0.04), (0.56, 0.24), (0.37, 0.34)),
        "SaCCM": ((0.93, 0.05), (0.57, 0.26), (0.36, 0.35)),
    },
    "crippled-ant": {
        "PEARL": ((1682, 73), (996, 21), (888, 31)),
        "TESAC": ((2139, 90), (1952, 40), (1048, 124)),
        "CCM": ((2361, 114), (2047, 83), (1527, 301)),
        "SaTESAC": ((2638, 406), (2379, 528), (2131, 132)),
        "SaCCM": ((2355, 170), (2310, 314), (2007, 68)),
    },
    "crippled-half-cheetah": {
        "PEARL": ((1998, 973), (698, 548), (746, 1092)),
        "TESAC": ((3967, 955), (874, 901), (846, 849)),
        "CCM": ((3481, 488), (821, 575), (873, 914)),
        "SaTESAC": ((4328, 1092), (1143, 664), (1540, 1094)),
        "SaCCM": ((4478, 1131), (1007, 568), (1027, 782)),
    },
    "ant": {
        "PEARL": ((5153, 581), (3873, 235), (3802, 409)),
        "TESAC": ((6789, 451), (4705, 279), (4108, 369)),
        "CCM": ((6901, 567), (5179, 902), (4700, 696)),
        "SaTESAC": ((7314, 545), (5513, 648), (4940, 531)),
        "SaCCM": ((7478, 539), (5717, 488), (5215, 377)),
    },
    "half-cheetah": {
        "PEARL": ((5802, 773), (2190, 970), (1346, 692)),
        "TESAC": ((6298, 2310), (3173, 1210), (1159, 338)),
        "CCM": ((6955, 788), (3963, 622), (1325, 269)),
        "SaTESAC": ((7430, 1026), (4058, 890), (1780, 102)),
        "SaCCM": ((7154, 965), (3849, 689), (1926, 218)),
    },
    "slim-humanoid": {
        "PEARL": ((6947, 3541), (3697, 2674), (2018, 907)),
        "TESAC": ((8437, 1798), (6989, 1301), (3760, 308)),
        "CCM": ((7696, 1907), (5784, 531), (2887, 1058)),
        "SaTESAC": ((10216, 1620), (7886, 2203), (6123, 1403)),
        "SaCCM": ((9312, 705), (7430, 1587), (6473, 2001)),
    },
    "humanoid-standup": {
        "PEARL": ((95456, 13445), (63242, 13546), (64224, 15467)),
        "TESAC": ((158384, 14455), (153944, 15046), (74220, 19980)),
        "CCM": ((146480, 33745), (154601, 16291), (94991, 15258)),
        "SaTESAC": ((178142, 10081), (168337, 12123), (133335, 24607)),
        "SaCCM": ((187930, 19338), (181033, 14628), (141750, 27426)),
    },
    "hopper": {
        "PEARL": ((934, 242), (874, 366), (799, 298)),
        "TESAC": ((1492, 59), (1499, 35), (1459, 72)),
        "CCM": ((1484, 54), (1446, 64), (1452, 58)),
        "SaTESAC": ((1502, 20), (1453, 39), (1447, 14)),
        "SaCCM": ((1462, 45), (1462, 14), (1451, 67)),
    },
    "crippled-hopper": {
        "PEARL": ((3091, 298), (2387, 656), (456, 235)),
        "TESAC": ((3575, 192), (3298, 551), (722, 161)),
        "CCM": ((3455, 301), (3409, 239), (1009, 289)),
        "SaTESAC": ((3391, 84), (3262, 166), (1839, 130)),
        "SaCCM": ((3449, 103), (3390, 211), (2059, 221)),
    },
    "walker": {
        "PEARL": ((7524, 2455), (3355, 2555), (1984, 356)),
        "TESAC": ((7747, 1772), (4355, 1530), (2581, 407)),
        "CCM": ((8136, 557), (5476, 803), (2519, 682)),
        "SaTESAC": ((8675, 752), (5840, 676), (3632, 404)),
        "SaCCM": ((8361, 586), (5779, 691), (3481, 332)),
    },
    "crippled-walker": {
        "PEARL": ((7899, 2532), (4377, 2563), (2965, 1426)),
        "TESAC": ((9908, 1561), (5929, 1971), (3041, 912)),
        "CCM": ((10317, 1137), (6233, 1869), (3098, 821)),
        "SaTESAC": ((10389, 1031), (8387, 1291), (4280, 485)),
        "SaCCM": ((10496, 951), (8235, 1212), (4824, 839)),
    },
}

_P_PAIRS = (("SaTESAC", "TESAC"), ("SaCCM", "CCM"))
_P_VALUES: dict[str, tuple[tuple[float, ...], ...]] = {
    "panda": ((0.000260, 0.000160, 0.001310), (0.000230, 0.002190, 0.001390)),
    "crippled-ant": ((0.121, 0.109, 9.54e-07), (0.913, 0.108, 0.008)),
    "crippled-half-cheetah": ((0.154, 0.0024, 0.0889), (0.04, 0.307, 0.106)),
    "ant": ((0.136, 0.034, 0.021), (0.138, 0.275, 0.163)),
    "half-cheetah": ((0.346, 0.224, 0.004), (0.73, 0.791, 0.005)),
    "slim-humanoid": ((0.139, 0.456, 0.006), (0.113, 0.059, 0.008)),
    "humanoid-standup": ((0.037, 0.129, 0.003), (0.048, 0.027, 0.01)),
    "hopper": ((0.747, 0.089, 0.707), (0.52, 0.599, 0.969)),
    "crippled-hopper": ((0.459, 0.69, 0.088), (0.967, 0.897, 0.0002)),
    "walker": ((0.312, 0.082, 0.003), (0.55, 0.541, 0.022)),
    "crippled-walker": ((0.223, 0.048, 0.028), (0.794, 0.079, 0.011)),
}
"""By pair of titles and set."""
