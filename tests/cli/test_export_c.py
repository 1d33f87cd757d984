"""`sami export --c`: a header and a source, the gate's limits, and what is refused in one line."""

from pathlib import Path

import pytest


def export(sami, *options):
    return sami("export", "--c", "panda-satesac", "--out", "policy", *options)


def test_a_header_and_a_source_are_written_with_the_limits_of_a_file_and_not_replaced_unasked(sami):
    Path("limits.toml").write_text("rest = 0.0\nrate = 1.5\n")
    result = export(sami, "--set", "limits=limits.toml")
    assert (result.code, result.errors) == (0, "")
    assert "wrote policy/panda_satesac.hpp: " in result.out
    header, source = (Path("policy", f"panda_satesac.{kind}").read_text() for kind in ("hpp", "cpp"))
    assert "limits.rate = " in header
    assert "1.5" in next(line for line in header.splitlines() if "limits.rate = " in line)
    assert "written by `sami export --c`" in source
    result = export(sami)
    assert result.code == 1
    assert "exists" in result.errors
    assert Path("policy/panda_satesac.hpp").read_text() == header


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--set", "limits=no.toml"], 1, "no.toml cannot be read"),
        (["--set", "limits=known.toml"], 1, "the limits set known, which the gate in C++ lacks"),
        (["--lookahead", 2], 2, "--c goes with --out and --set limits=FILE"),
        (["--set", "card=false"], 2, "--c goes with --out and --set limits=FILE"),
    ],
)
def test_what_cannot_be_written_is_refused_and_nothing_is_written(sami, options, code, message):
    Path("known.toml").write_text('known = { "ee_position.z" = 0.2 }\n')
    result = export(sami, *options)
    assert result.code == code
    assert message in " ".join((result.errors + result.err).split())
    assert not Path("policy").exists()
