"""Draws the pictures of docs/how-it-works.md as SVG, for light and dark pages: `python benchmarks/drawings.py`.

The same code writes the same bytes, and `tests/test_docs.py` compares them with the files in docs/pictures. Text must
fit into its box by a rough measure of its width; a picture whose text does not fit raises ValueError.
"""

# ruff: noqa: RUF001 (Greek letters and signs of the paper, in texts)
from __future__ import annotations

from collections.abc import Callable
from html import escape
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDER = "docs/pictures"
PALETTES = {
    "light": {
        **{"text": "#1f2328", "muted": "#59636e", "line": "#59636e", "area": "#c3ccd5"},
        **{"plain": "#f6f8fa", "plain-edge": "#818b98", "file": "#ddf4ff", "file-edge": "#0969da"},
        **{"stop": "#ffebe9", "stop-edge": "#cf222e", "branch": "none", "branch-edge": "#818b98"},
        **{"gradient": "#bc4c00", "copy": "#0969da", "held": "#cf222e"},
    },
    "dark": {
        **{"text": "#f0f6fc", "muted": "#9ea7b3", "line": "#9ea7b3", "area": "#444c56"},
        **{"plain": "#1c232c", "plain-edge": "#768390", "file": "#0f2a4d", "file-edge": "#4493f8"},
        **{"stop": "#3b1a1d", "stop-edge": "#f85149", "branch": "none", "branch-edge": "#768390"},
        **{"gradient": "#f0883e", "copy": "#4493f8", "held": "#f85149"},
    },
}
FONT = "system-ui, -apple-system, 'Segoe UI', 'Noto Sans', Helvetica, Arial, sans-serif"
CHARACTER = 0.54
"""Mean width of a character, as a share of the font's size."""
DASHES = {"gradient": "7 4", "copy": "2 4", "held": "7 4"}
Points = list[tuple[int, int]]


class Picture:
    """One picture: boxes, areas, arrows and text on a transparent background.

    Args:
        width, height: In pixels.
        title: Its name, for screen readers.
        palette: Colours by their use.
    """

    def __init__(self, width: int, height: int, title: str, palette: dict[str, str]) -> None:
        self.palette, self.names = palette, set[str]()
        self.size, self.title = (width, height), title
        self.shapes: list[str] = []

    def text(
        self,
        x: int,
        y: int,
        words: str,
        size: int = 14,
        colour: str = "text",
        bold: bool = False,
        anchor: str = "start",
    ) -> None:
        """Write one line; y is its baseline."""
        if anchor == "start" and x + CHARACTER * size * len(words) > self.size[0]:
            raise ValueError(f"{words!r} leaves the picture; shorten it")
        weight = ' font-weight="600"' if bold else ""
        where = "" if anchor == "start" else f' text-anchor="{anchor}"'
        fill = self.palette[colour]
        self.shapes.append(
            f'<text x="{x}" y="{y}" font-size="{size}" fill="{fill}"{weight}{where}>{escape(words)}</text>'
        )

    def box(self, x: int, y: int, w: int, h: int, title: str, *lines: str, kind: str = "plain") -> None:
        """Draw a box with a bold title and lines below it, centred."""
        dashed = ' stroke-dasharray="5 4"' if kind == "branch" else ""
        edge = f'fill="{self.palette[kind]}" stroke="{self.palette[f"{kind}-edge"]}"{dashed}'
        self.shapes.append(f'<rect x="{x}" y="{y}" width="{w}" height="{h}" rx="6" {edge}/>')
        for words, size in ((title, 15), *((line, 13) for line in lines)):
            if CHARACTER * size * len(words) > w - 4:
                raise ValueError(f"{words!r} is wider than its box of {w} pixels; shorten it or widen the box")
        first = y + h // 2 + 5 - 9 * len(lines)
        self.text(x + w // 2, first, title, 15, bold=True, anchor="middle")
        for at, line in enumerate(lines):
            self.text(x + w // 2, first + 18 * (at + 1), line, 13, "muted", anchor="middle")

    def area(self, x: int, y: int, w: int, h: int, title: str, line: str = "") -> None:
        """Draw a frame around boxes, with its title at the top left."""
        frame = f'fill="none" stroke="{self.palette["area"]}" stroke-width="2"'
        self.shapes.append(f'<rect x="{x}" y="{y}" width="{w}" height="{h}" rx="10" {frame}/>')
        self.text(x + 14, y + 24, title, 16, bold=True)
        if line:
            self.text(x + 14 + int(0.62 * 16 * len(title)) + 12, y + 24, line, 13, "muted")

    def arrow(self, points: Points, kind: str = "line", head: bool = True) -> None:
        """Draw straight lines through points, with a head at the last one."""
        colour, dashes = self.palette[kind], DASHES.get(kind)
        self.names.add(kind)
        marks = (f' stroke-dasharray="{dashes}"' if dashes else "") + (f' marker-end="url(#{kind})"' if head else "")
        route = " ".join(f"{x},{y}" for x, y in points)
        self.shapes.append(f'<polyline points="{route}" fill="none" stroke="{colour}" stroke-width="2"{marks}/>')

    def bar(self, x: int, y: int) -> None:
        """Draw the two strokes of a stop-gradient across a horizontal arrow."""
        for at in (x, x + 5):
            self.shapes.append(f'<path d="M{at} {y - 8}V{y + 8}" stroke="{self.palette["held"]}" stroke-width="2.5"/>')

    def svg(self) -> str:
        """Return the file's text."""
        width, height = self.size
        heads = "".join(
            f'<marker id="{kind}" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto">'
            f'<path d="M0 0L10 5L0 10z" fill="{self.palette[kind]}"/></marker>\n'
            for kind in sorted(self.names)
        )
        opening = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
            f'role="img" font-family="{escape(FONT)}">'
        )
        head = f"<title>{escape(self.title)}</title>\n<defs>\n{heads}</defs>"
        return "\n".join([opening, head, *self.shapes, "</svg>"]) + "\n"


def data_flow(palette: dict[str, str]) -> Picture:
    """Draw the way from tasks in a simulator to a robot."""
    p = Picture(1000, 800, "The data flow from simulator to robot", palette)
    p.area(10, 10, 980, 276, "sami_train", "trains in simulation (torch)")
    columns = [24, 219, 414, 609]
    w, h, top, low = 165, 72, 50, 182
    p.box(columns[0], top, w, h, "Tasks", "hidden mass, friction", "envs/tasks.py")
    p.box(columns[1], top, w, h, "Environment", "simulator, reward", "envs/")
    p.box(columns[2], top, w, h, "Rollout", "whole episodes", "episodes/rollout.py")
    p.box(columns[3], top, w, h, "Buffer", "episodes by task", "episodes/buffer.py")
    p.box(columns[3], low, w, h, "Losses", "SAC and SaNCE", "agent/")
    p.box(columns[2], low, w, h, "Agent", "encoder, policy", "agent/")
    p.box(columns[1], low, w, h, "Run folder", "weights, metrics", "runs/folder.py")
    p.box(columns[0], low, w, h, "Export", "graph and contract", "export/")
    for left, right in pairwise(columns):
        p.arrow([(left + w, top + h // 2), (right, top + h // 2)])
        p.arrow([(right, low + h // 2), (left + w, low + h // 2)])
    p.arrow([(columns[3] + w // 2, top + h), (columns[3] + w // 2, low)])
    p.arrow([(columns[2] + w // 2, low), (columns[2] + w // 2, top + h)])
    p.text(columns[2] + w // 2 + 8, 158, "new weights", 13, "muted")
    p.box(806, top, 170, h, "Studies", "compare, report, sweep", "studies/ (a branch)", kind="branch")
    p.box(806, low, 170, h, "Evaluate", "plays the task sets", "evaluation/")
    p.arrow([(891, low), (891, top + h)])
    p.box(
        24,
        336,
        952,
        64,
        "NAME.onnx: one file",
        "graph + contract + golden steps: the only bridge between the packages",
        kind="file",
    )
    p.arrow([(106, low + h), (106, 336)])
    p.arrow([(891, 336), (891, low + h)])
    p.area(10, 450, 980, 340, "sami_runtime", "steps the file; no torch")
    p.box(319, 488, 200, 58, "Session", "state, inference: session/")
    p.box(776, 488, 200, 58, "Checks", "sami verify: checks/")
    p.arrow([(876, 400), (876, 488)])
    p.arrow([(419, 400), (419, 488)])
    p.area(24, 572, 952, 118, "Loop", "one tick: loop/episode.py")
    steps = [
        ("observe", "adapter.read"),
        ("guards", "safety/watch.py"),
        ("session.step", "inference"),
        ("safety gate", "safety/gate.py"),
        ("adapter.write", "applied action"),
        ("record", "recording/"),
    ]
    lefts = [38 + 157 * at for at in range(len(steps))]
    for left, (name, line) in zip(lefts, steps, strict=True):
        p.box(left, 612, 135, 62, name, line)
    for left in lefts[:-1]:
        p.arrow([(left + 135, 643), (left + 157, 643)])
    p.arrow([(419, 546), (419, 612)])
    world = "adapters/ (gymnasium, panda), robots/ (franka, ros2), or your own"
    p.box(270, 722, 536, 54, "Simulator or robot", world)
    p.arrow([(733, 674), (733, 722)])
    p.arrow([(270, 749), (105, 749), (105, 674)])
    p.text(114, 742, "observation, stamps", 13, "muted")
    p.text(741, 711, "action", 13, "muted")
    return p


TICK = (
    ("Adapter", "read", "values, stamps"),
    ("Safety gate", "guards", "gate.fault"),
    ("Loop", "age", "in periods"),
    ("Session", "step", "inference"),
    ("Loop", "deadline", "late: undo"),
    ("Safety gate", "ruling", "propose or hold"),
    ("Watchdog", "heartbeat", "watchdog.beat"),
    ("Adapter", "write", "limited action"),
    ("Session", "executed", "applied action"),
    ("Safety gate", "telemetry", "OOD score"),
    ("Loop", "record", "the whole tick"),
)
"""The order of one tick: who acts, what is called, and what it is about. A test compares it with a run."""
LANES = ("Adapter", "Safety gate", "Loop", "Session", "Watchdog")


def tick(palette: dict[str, str]) -> Picture:
    """Draw one tick in time, and the ticks at which the policy is held."""
    p = Picture(1040, 704, "One tick of the control loop in time, and held ticks", palette)
    p.text(12, 24, "One tick, from left to right", 16, bold=True)
    row, y0, stride, width, left = 78, 44, 75, 124, 136
    middles = {lane: y0 + row * at + row // 2 for at, lane in enumerate(LANES)}
    for lane, middle in middles.items():
        p.arrow([(12, middle + row // 2), (1028, middle + row // 2)], "area", head=False)
        p.text(12, middle + 5, lane, 15, bold=True)
    p.text(12, middles["Watchdog"] + 23, "own process", 13, "muted")
    for at, (lane, name, line) in enumerate(TICK):
        x, y = left + stride * at, middles[lane]
        if at + 1 < len(TICK):
            after, way = middles[TICK[at + 1][0]], 1 if middles[TICK[at + 1][0]] > y else -1
            p.arrow([(x + width // 2, y + way * 26), (x + width // 2, after), (x + stride, after)])
        p.box(x, y - 26, width, 52, f"{at + 1} {name}", line)
    gate = middles["Safety gate"] - 16
    p.arrow([(left + stride + width, gate), (left + 5 * stride, gate)], "held")
    p.text(left + stride + width + 12, gate - 7, "held: no inference", 13, "held")
    bottom = y0 + row * len(LANES)
    p.arrow([(left, bottom + 22), (left + 4 * stride + width, bottom + 22)])
    notes = (
        "deadline_s: by default one period of the loop. A late output is dropped, and the tick is held.",
        "If a guard objects, the tick skips 4, 5 and 10. Heartbeat, write and record go on; the recurrent state stays.",
        "If the gate trips, nothing more is written: the loop records the tick and calls adapter.stop().",
        "The watchdog stops the robot by itself if no heartbeat arrives in time.",
    )
    for at, note in enumerate(notes):
        p.text(left, bottom + 42 + 19 * at, note, 13, "muted")
    top = bottom + 144
    p.text(12, top, "Held ticks in a row, with the default limits", 16, bold=True)
    cells = [("", "acted", "plain")]
    cells += [(str(n), "repeat", "plain") for n in (1, 2, 3)]
    cells += [(str(n), "neutral", "file") for n in range(4, 10)]
    cells += [("10", "stop", "stop")]
    for at, (number, name, kind) in enumerate(cells):
        p.box(12 + 92 * at, top + 16, 84, 54, name, *([f"held {number}"] if number else ["count 0"]), kind=kind)
    remarks = (
        (104, "up to hold_ticks = 3:", "last action again"),
        (380, "then the fallback controller, else the neutral", "action (rest in limits.toml), else repeat"),
        (846, "at stop_after = 10: gate", "trips, adapter.stop()"),
    )
    for x, first, second in remarks:
        p.text(x, top + 92, first, 13, "muted")
        p.text(x, top + 110, second, 13, "muted")
    return p


def update(palette: dict[str, str]) -> Picture:
    """Draw one gradient update, and where its gradients go."""
    p = Picture(1000, 690, "One gradient update of SaTESAC, and where its gradients go", palette)
    p.box(12, 30, 200, 92, "Compared episodes", "trajectories of one task:", "high returns against", "low returns")
    p.box(12, 300, 200, 92, "Windows", "of a batch of episodes,", "with transitions", "(s, a, r, s′)")
    p.box(282, 30, 170, 442, "Encoder ψ", "LSTM over features", "and applied actions", "→ context c")
    p.box(282, 524, 170, 70, "Momentum ψ*", "no gradient", "→ context c*")
    p.box(540, 152, 180, 62, "Temperature α", "of the entropy")
    p.box(540, 256, 180, 84, "Actor π(a | s, c)", "reads c as data")
    p.box(540, 388, 180, 84, "Critics Q₁, Q₂", "read s, c, a")
    p.box(540, 524, 180, 70, "Target critics", "no gradient")
    p.box(786, 30, 202, 92, "SaNCE loss", "high returns attract,", "low returns repel", "keys: ψ* or ψ")
    p.box(786, 152, 202, 62, "Temperature loss", "entropy to its target")
    p.box(786, 256, 202, 84, "Actor loss", "α log π − min Q", "(critics frozen)")
    p.box(786, 388, 202, 84, "TD loss", "(Q − target)² / 2")
    p.box(786, 514, 202, 90, "TD target", "r + γ (min Q* − α log π)", "at s′, c*; a′ from π", "no gradient")
    p.arrow([(212, 76), (282, 76)])
    p.arrow([(212, 346), (282, 346)])
    p.arrow([(112, 392), (112, 559), (282, 559)])
    p.arrow([(452, 62), (786, 62)])
    p.text(474, 52, "last context of each trajectory", 13, "muted")
    p.arrow([(786, 92), (452, 92)], "gradient")
    p.arrow([(786, 183), (720, 183)], "gradient")
    p.arrow([(452, 298), (540, 298)])
    p.bar(492, 298)
    p.text(464, 290, "c", 14, "muted")
    p.text(490, 406, "c", 14, "muted")
    for x, to, y in ((452, 540, 414), (720, 786, 414), (720, 786, 282)):
        p.arrow([(x, y), (to, y)])
    for x, to, y in ((786, 720, 446), (540, 452, 446), (786, 720, 314)):
        p.arrow([(x, y), (to, y)], "gradient")
    p.arrow([(887, 256), (887, 214)])
    p.text(895, 240, "entropy", 13, "muted")
    p.arrow([(452, 559), (540, 559)])
    p.arrow([(720, 559), (786, 559)])
    p.arrow([(887, 514), (887, 472)])
    p.arrow([(367, 472), (367, 524)], "copy")
    p.arrow([(630, 472), (630, 524)], "copy")
    p.text(375, 503, "each update", 13, "copy")
    p.text(638, 503, "each step", 13, "copy")
    p.arrow([(12, 640), (62, 640)])
    p.text(70, 645, "data", 14)
    p.arrow([(140, 640), (190, 640)], "gradient")
    p.text(198, 645, "gradient", 14)
    p.arrow([(290, 640), (340, 640)], "copy")
    p.text(348, 645, "soft update (slow copy)", 14)
    p.arrow([(540, 640), (600, 640)])
    p.bar(566, 640)
    p.text(608, 645, "stop-gradient", 14)
    p.text(
        12,
        676,
        "The gradients of SaNCE and TD reach ψ; those of the actor's and the temperature's loss do not.",
        14,
        bold=True,
    )
    return p


INPUTS = (
    ("observation.NAME", "[B, size], one per signal", True),
    ("previous_action", "[B, A], the applied one", True),
    ("state.NAME.in", "[B, ...], recurrent state", False),
    ("age", "[B, signals], in periods", False),
)
OUTPUTS = (
    ("action", "[B, A], the action's units", True),
    ("context", "[B, C], skill context", False),
    ("state.NAME.out", "[B, ...], for the next step", False),
    ("probe_NAME, present_NAME", "extra outputs", False),
)
FIELDS = (
    ("observation, action", "signals: size, unit, elements, bounds", "session, adapters, safety gate"),
    ("rate_hz, episode_steps", "rate of the policy, length of an episode", "loop, gate (times), adapters"),
    ("state", "shape and initial value of each tensor", "session (reset)"),
    ("context, extra_outputs", "what else the graph computes", "session, telemetry, recorder"),
    ("seen", "training ranges, response to each action", "guards: ranges, frozen; check-adapter"),
    ("atlas, recovery", "in-distribution reference, time to adapt", "telemetry; guard: ood, time_to_adapt"),
    ("sheet", "frame, home pose, gains of the robot", "robots/, check-adapter, new-adapter"),
    ("lookahead", "horizon and errors of the state prediction", "session (ages), loop"),
    ("probe", "accuracy of each probe output", "telemetry"),
    ("golden", "recorded steps of the trained network", "sami verify, the rehearsal"),
    ("weights_sha256", "hash of the graph", "loader, replay, hot swap"),
    ("training, evaluation", "how it was trained, how good it is", "people: card, report; export"),
    ("name, version", "name of the model, version of the contract", "loader, recorder"),
)
"""Each key of the contract, what it holds, and who reads it. A test compares the keys with the contract."""


def contract(palette: dict[str, str]) -> Picture:
    """Draw the inputs and outputs of the graph, and who reads which field of the contract."""
    p = Picture(1000, 760, "The model file: inputs, outputs, and who reads which field of the contract", palette)
    p.box(
        360,
        40,
        280,
        246,
        "Graph",
        "join the signals, normalise",
        "predict the present (lookahead)",
        "encoder: context",
        "policy: action in its units",
        kind="file",
    )
    for at, (name, line, required) in enumerate(INPUTS):
        p.box(12, 40 + 64 * at, 260, 54, name, line, kind="plain" if required else "branch")
        p.arrow([(272, 67 + 64 * at), (360, 67 + 64 * at)])
    for at, (name, line, required) in enumerate(OUTPUTS):
        p.box(728, 40 + 64 * at, 260, 54, name, line, kind="plain" if required else "branch")
        p.arrow([(640, 67 + 64 * at), (728, 67 + 64 * at)])
    p.text(12, 24, "Inputs", 16, bold=True)
    p.text(728, 24, "Outputs", 16, bold=True)
    p.text(500, 24, "NAME.onnx", 16, bold=True, anchor="middle")
    p.text(
        12,
        318,
        "B: batch, 1 on a robot. Dashed: only in files that need it. The session feeds state.NAME.out and the applied",
        13,
        "muted",
    )
    p.text(12, 336, "action back at the next step.", 13, "muted")
    top = 372
    for x, words in ((12, "Key of the contract"), (250, "Content"), (630, "Read by")):
        p.text(x, top, words, 15, bold=True)
    for at, cells in enumerate(FIELDS):
        y = top + 28 * (at + 1)
        p.arrow([(12, y - 19), (988, y - 19)], "area", head=False)
        for x, room, words in zip((12, 250, 630), (232, 372, 360), cells, strict=True):
            if CHARACTER * 14 * len(words) > room:
                raise ValueError(f"{words!r} is wider than its column of {room} pixels; shorten it")
            p.text(x, y, words, 14)
    return p


PICTURES: dict[str, Callable[[dict[str, str]], Picture]] = {
    "data-flow": data_flow,
    "one-tick": tick,
    "one-update": update,
    "contract": contract,
}


def drawings() -> dict[str, str]:
    """Return the text of each picture by its path in the repository."""
    return {
        f"{FOLDER}/{name}-{mode}.svg": draw(palette).svg()
        for name, draw in PICTURES.items()
        for mode, palette in PALETTES.items()
    }


def write(path: str) -> None:
    """Write one picture."""
    file = ROOT / path
    file.parent.mkdir(exist_ok=True)
    file.write_text(drawings()[path], encoding="utf-8")


if __name__ == "__main__":
    for path in drawings():
        write(path)
