"""What commands print fits a terminal; the fixture `sami` asserts it of every other test's commands as well."""

import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.table import Table
from sami_cli.commands import demo
from sami_cli.commands.studies import teach
from sami_cli.episodes import summary
from sami_cli.output import print_table, print_text, wrapped

COMMANDS = Path(__file__).parents[2] / "cli"


def test_a_long_line_continues_below_its_last_column():
    line = "warn    clock       it is read by a trip to a device, which takes microseconds that a loop of 1 kHz misses"
    assert wrapped(line).splitlines() == [
        "warn    clock       it is read by a trip to a device, which takes microseconds",
        "                    that a loop of 1 kHz misses",
    ]


def test_a_long_sentence_continues_with_an_indentation():
    first, second = wrapped("a sentence " + "of words " * 10).splitlines()
    assert len(first) <= 80
    assert second.startswith("  words of")


def test_a_long_command_can_still_be_copied_into_a_shell():
    command = f"  sami export --run runs/{'a' * 30} --out {'b' * 30}.onnx --env my_robot:spec"
    lines = wrapped(command).splitlines()
    assert all(line.endswith(" \\") for line in lines[:-1])
    assert re.sub(r" \\\n +", " ", wrapped(command)) == command
    assert max(map(len, lines)) <= 80


def test_a_path_is_never_broken():
    path = "/home/" + "long/" * 20 + "model.onnx"
    assert wrapped(f"wrote {path}").splitlines() == ["wrote", f"  {path}"]


def test_what_fits_stays_as_it_is():
    text = "head\n\n    1   2\n  sami verify model.onnx"
    assert wrapped(text) == text


def test_a_name_that_came_over_the_network_gives_the_terminal_no_orders(capsys):
    print_text("it has joint\x1b[2J\x1b]0;owned\x07", "table\tcell é", error=True)
    assert capsys.readouterr().err == "it has joint\\x1b[2J\\x1b]0;owned\\x07\ntable\tcell é\n"


def test_a_summary_of_many_features_cuts_no_number_off(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    features = [f"feature_{letter}" for letter in "abcdefghi"]
    world = SimpleNamespace(features=features, success=False, skills=())
    row = {"return": 7.0, "steps": 500, "skill": "", **{name: 0.123456 + at for at, name in enumerate(features)}}
    summary([row], world, ())
    output = capsys.readouterr().out
    assert "…" not in output
    assert all(f"{0.123456 + at:.5f}"[:6] in output for at in range(9))


def test_a_narrow_terminal_cuts_or_breaks_no_number_of_a_table(capsys, monkeypatch):
    """Names may be folded; a number that is cut, such as 13.0 as `13…`, reads as another one."""
    monkeypatch.setenv("COLUMNS", "40")
    table = Table()
    table.add_column("parameter", overflow="fold")
    table.add_column("95 % interval", overflow="fold")
    for name in ("success", "above baseline", "lifted", "steps", "return"):
        table.add_column(name, justify="right", no_wrap=name == "return")
    table.add_row("joint_positions_of_the_arm", "-0.0027 to 0.00338", "1.000", "0.875", "0.50", "13.0", "-14.2 ±5.4")
    print_table(table)
    output = capsys.readouterr().out
    for number in ("-0.0027", "0.00338", "1.000", "0.875", "0.50", "13.0", "-14.2 ±5.4"):
        assert f" {number} " in output
    assert "joint_positi" in output


def test_commands_print_in_no_other_way():
    """Apart from JSON and tables for pages, which programs read, and a line that is drawn again and again."""
    for path in COMMANDS.rglob("*.py"):
        if path.name == "output.py":
            continue
        for line in path.read_text(encoding="utf-8").splitlines():
            if re.match(r"\s*print\(", line):
                assert re.search(r"json(_module)?\.dumps|CLEAR|for a page", line), f"{path.name}: {line}"
            assert "Console(" not in line, f"{path.name}: {line}"


def test_a_piped_message_stays_one_line_for_programs_that_search_it(capfd):
    print_text("word " * 30, error=True)
    print_text("word " * 30)
    out, err = capfd.readouterr()
    assert len(err.splitlines()) == 1
    assert len(out.splitlines()) == 2


def test_no_lines_print_nothing(capfd):
    print_text()
    assert capfd.readouterr().out == ""


def test_the_demo_of_make_run_puts_sami_on_the_path_before_the_next_commands(monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    program = Path(".venv/bin/sami")
    program.parent.mkdir(parents=True)
    program.touch()
    monkeypatch.setattr("sys.argv", [str(program), "demo"])
    demo._print_next("panda-mujoco")
    _, heading, first, *lines = capsys.readouterr().out.splitlines()
    assert (heading, first) == ("Next:", "  . .venv/bin/activate")
    assert len(lines) == 3
    monkeypatch.setattr("sys.argv", [str(tmp_path / program), "demo"])
    demo._print_next("panda-mujoco")
    assert capsys.readouterr().out.splitlines()[2:] == lines, "sami was found on the PATH"


def test_a_command_to_copy_reads_a_path_with_a_space_as_one_word(sami):
    pytest.importorskip("mujoco")
    result = sami("run", "--env", "panda-mujoco", "--episodes", "1", "--set", "steps=2", "--record", "my run.mcap")
    assert "Next: sami view 'my run.mcap', or sami replay 'my run.mcap'" in result.out


def test_a_measurement_of_a_teacher_is_its_return_in_each_set(capsys):
    sets = {"nominal": {"return": 561.4, "falls": 0.0}, "extreme": {"return": 236.2, "falls": 0.46}}
    teach._show({"steps": 55_296, "seconds": 228.0, "sets": sets})
    assert capsys.readouterr().out == "      55,296 steps    3.8 min  return: nominal 561, extreme 236\n"


def test_every_command_to_copy_quotes_the_paths_in_it():
    """What a path is called in the code: a name in braces, right behind a word of the command."""
    names = r"out|folder|policy|grid\.path|whole|model|path|run\.\w+|self\.\w+|file\.\w+|outputs\[1\]|_folder\(run\)"
    pattern = re.compile(rf"sami [a-z-]+ (?:RUN\.\.\. )?(?:--[a-z-]+ )?\{{({names})\}}")
    sources = [
        path for room in ("cli", "sami_train", "sami_runtime") for path in (COMMANDS.parent / room).rglob("*.py")
    ]
    texts = {path.name: pattern.findall(path.read_text(encoding="utf-8")) for path in sources}
    assert {name: words for name, words in texts.items() if words and name != "skeleton.py"} == {}


def test_a_compilers_command_is_never_broken_within_a_path(sami):
    result = sami("export", "--c", "panda-satesac", "--out", "my robots/policy of the week")
    [*_, first, last] = result.out.splitlines()
    assert (first[-2:], last) == (" \\", "      -c 'my robots/policy of the week/panda_satesac.cpp'")
