"""Files and folders that appear whole or not at all, and locks: one process at a time, free again whatever ends it."""

import errno
import json
import os
import platform
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from sami_runtime.errors import SamiError
from sami_runtime.files import folder_of_outputs, make_folder, writing
from sami_train.files import holder, locked, read_json, read_json_lines, unfinished, write_json


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_file_appears_when_it_is_whole(tmp_path):
    with unfinished(tmp_path / "model.onnx") as temporary:
        temporary.write_text("half")
        assert names(tmp_path) == [f"model.onnx.{platform.node()}-{os.getpid()}.unfinished"]
    assert names(tmp_path) == ["model.onnx"]
    assert (tmp_path / "model.onnx").read_text() == "half"


def test_a_folder_appears_when_it_is_whole_and_replaces_the_one_that_was_there(tmp_path):
    for contents in ("old", "new"):
        with unfinished(tmp_path / "600") as temporary:
            temporary.mkdir()
            (temporary / contents).touch()
    assert names(tmp_path) == ["600"]
    assert names(tmp_path / "600") == ["new"]


def half(path, error):
    """Make half a file, or half a folder."""
    with unfinished(path) as temporary:
        if path.suffix:
            temporary.write_text("half")
        else:
            (temporary / "deep").mkdir(parents=True)
        raise error


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
@pytest.mark.parametrize("name", ["agent.zip", "600"])
def test_an_error_leaves_what_was_there_and_nothing_beside_it(tmp_path, name, error):
    (tmp_path / name).write_text("old")
    with pytest.raises(error):
        half(tmp_path / name, error)
    assert names(tmp_path) == [name]
    assert (tmp_path / name).read_text() == "old"


def test_what_a_killed_process_left_beside_does_not_get_in(tmp_path):
    killed = subprocess.Popen([sys.executable, "-c", ""])
    killed.wait()
    leftover = tmp_path / f"600.{platform.node()}-{killed.pid}.unfinished"
    leftover.mkdir()
    (leftover / "torn").touch()
    (tmp_path / f"agent.zip.{platform.node()}-{killed.pid}.unfinished").write_text("torn")
    with unfinished(tmp_path / "600") as temporary:
        temporary.mkdir()
    with unfinished(tmp_path / "agent.zip") as temporary:
        assert not temporary.exists()
        temporary.write_text("whole")
    assert names(tmp_path) == ["600", "agent.zip"]
    assert names(tmp_path / "600") == []


@pytest.mark.parametrize("number", ["9" * 20, "\u00b2"])
def test_a_leftover_of_no_process_that_can_be_does_not_keep_from_writing(tmp_path, number):
    leftover = tmp_path / f"agent.zip.{platform.node()}-{number}.unfinished"
    leftover.touch()
    with unfinished(tmp_path / "agent.zip") as temporary:
        temporary.write_text("whole")
    assert ((tmp_path / "agent.zip").read_text(), leftover.exists()) == ("whole", False)


def test_a_value_that_is_no_json_leaves_the_old_file(tmp_path):
    path = tmp_path / "run.json"
    write_json(path, {"steps": 1})
    with pytest.raises(TypeError):
        write_json(path, {"steps": object()})
    assert read_json(path) == {"steps": 1}
    assert path.read_text() == '{\n  "steps": 1\n}\n'
    assert names(tmp_path) == ["run.json"]


@pytest.mark.parametrize(
    ("text", "message"), [('{"steps": 1', "cannot be read: .*Is it half written?"), ("[1]", "holds a list")]
)
def test_what_is_no_json_object_is_refused(tmp_path, text, message):
    (tmp_path / "run.json").write_text(text)
    with pytest.raises(SamiError, match=message):
        read_json(tmp_path / "run.json")


def test_a_last_line_that_was_cut_off_is_left_out(tmp_path):
    path = tmp_path / "metrics.jsonl"
    assert read_json_lines(path) == []
    path.write_text(json.dumps({"step": 1}) + '\n{"st')
    assert read_json_lines(path) == [{"step": 1}]


def test_an_error_of_another_file_is_not_called_one_of_the_file_that_is_written(tmp_path):
    with pytest.raises(FileNotFoundError), writing(tmp_path / "runs"):
        (tmp_path / "runs-old" / "data.csv").open()
    with pytest.raises(SamiError, match="runs cannot be written: No such file"), writing(tmp_path / "runs"):
        (tmp_path / "runs" / "data.csv").open()


def test_two_that_write_the_same_name_do_not_take_each_others_halves(tmp_path):
    """Two exports to one name: the later one wins, and neither fails."""
    write = "import sys, time; from pathlib import Path; from sami_train.files import unfinished\n"
    write += "with unfinished(Path(sys.argv[1])) as beside:\n beside.write_text('x' * 9); time.sleep(1)"
    processes = [subprocess.Popen([sys.executable, "-c", write, str(tmp_path / "model.onnx")]) for _ in range(2)]
    assert [process.wait() for process in processes] == [0, 0]
    assert names(tmp_path) == ["model.onnx"]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS])
def test_a_full_or_read_only_disk_is_told_with_the_file_and_what_was_there_stays(tmp_path, number):
    path = tmp_path / "run.json"
    write_json(path, {"state": "running"})
    with pytest.raises(SamiError, match=rf"run\.json cannot be written: {os.strerror(number)}\. Make room"):
        half(path, OSError(number, os.strerror(number)))
    assert names(tmp_path) == ["run.json"]
    assert read_json(path) == {"state": "running"}


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="needs a folder in which nothing can be made")
def test_a_path_that_cannot_be_made_is_told(tmp_path):
    (tmp_path / "file").touch()
    for path in (Path("/proc/none/deep"), Path("/proc/none"), tmp_path / "file" / "none"):
        for write in (make_folder, lambda path: write_json(path, {})):
            with pytest.raises(SamiError, match=f"^{path} cannot be written: No"):
                write(path)


def test_a_folder_of_outputs_is_removed_if_it_stays_empty(tmp_path):
    with pytest.raises(SamiError), folder_of_outputs(tmp_path / "a" / "b"):
        raise SamiError("refused")
    assert names(tmp_path) == []
    with folder_of_outputs(tmp_path / "a" / "b"):
        write_json(tmp_path / "a" / "x.json", {})
    assert names(tmp_path / "a") == ["x.json"]


def replace_and_die(path, moment):
    """Replace a folder, and be killed before the so-manyth change of a file."""
    calls = 0

    def hear(event, arguments):
        nonlocal calls
        if event in ("os.rename", "os.remove", "os.rmdir", "os.mkdir", "open"):
            calls += 1
            if calls == moment:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hear)
    with unfinished(path) as temporary:
        temporary.mkdir()
        for name in ("agent", "buffer"):
            (temporary / name).write_text("new")
    os._exit(0)


def test_a_folder_that_is_replaced_is_whole_under_its_name_at_every_moment(tmp_path):
    """Half removed, it would look like one that never had a buffer."""
    path, killed = tmp_path / "600", 0
    for moment in range(1, 20):
        path.mkdir(exist_ok=True)
        for name in ("agent", "buffer"):
            (path / name).write_text("old")
        child = os.fork()
        if child == 0:
            replace_and_die(path, moment)
        killed += os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -9
        if path.exists():
            assert len({(path / name).read_text() for name in ("agent", "buffer")}) == 1
    assert killed > 5
    with unfinished(path) as temporary:
        temporary.mkdir()
    assert names(tmp_path) == ["600"]


def test_a_line_that_finds_no_room_leaves_the_lines_before_it_whole(tmp_path):
    limited = "import resource, signal, sys; from sami_train.files import append\n"
    limited += "resource.setrlimit(resource.RLIMIT_FSIZE, (25, 25))\nfile = open(sys.argv[1], 'ab', buffering=0)\n"
    limited += "for _ in range(3): append(file, b'{\"step\": 10}\\n')"
    path = tmp_path / "metrics.jsonl"
    process = subprocess.run([sys.executable, "-c", limited, str(path)], capture_output=True, text=True, check=False)
    assert "File too large" in process.stderr
    assert path.read_text() == '{"step": 10}\n'


HOLD = """
import sys, time
from pathlib import Path
from sami_train.files import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


class TakenError(Exception):
    """Raised where a lock is taken."""


def test_who_may_not_wait_is_told_who_holds_the_lock(tmp_path):
    lock = tmp_path / "lock"
    with locked(lock, TakenError):
        with pytest.raises(TakenError, match=f"process {os.getpid()} on "), locked(lock, TakenError):
            pytest.fail("two hold one lock")
        assert holder(lock).startswith(f"process {os.getpid()} on ")
    with locked(lock, TakenError):
        pass


def test_who_may_wait_comes_next(tmp_path):
    order = []

    def other():
        with locked(tmp_path / "lock"):
            order.append("other")

    thread = threading.Thread(target=other)
    with locked(tmp_path / "lock"):
        thread.start()
        time.sleep(0.1)
        order.append("first")
    thread.join()
    assert order == ["first", "other"]


def test_a_free_lock_has_no_holder(tmp_path):
    assert holder(tmp_path / "lock") == ""
    with locked(tmp_path / "lock"):
        pass
    assert holder(tmp_path / "lock") == ""


def test_an_error_within_is_its_own_and_frees_the_lock(tmp_path):
    lock = tmp_path / "lock"
    with pytest.raises(BlockingIOError, match="a full pipe"), locked(lock, TakenError):
        raise BlockingIOError("a full pipe")
    assert holder(lock) == ""


def test_a_killed_process_holds_nothing(tmp_path):
    lock = tmp_path / "lock"
    with subprocess.Popen([sys.executable, "-c", HOLD, str(lock)], stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"held\n"
        assert holder(lock).startswith(f"process {process.pid} on ")
        process.send_signal(signal.SIGKILL)
    assert holder(lock) == ""
    with locked(lock, TakenError):
        pass


def test_a_lock_that_goes_with_its_holder_keeps_out_who_waited_for_it_and_who_comes_later(tmp_path):
    """Who waited has the old file open, and a lock on that one would keep nobody out."""
    lock, within = tmp_path / "lock", []

    def other():
        with locked(lock, leave=False):
            within.append(holder(lock))
            time.sleep(0.2)
            within.append("out")

    threads = [threading.Thread(target=other) for _ in range(3)]
    with locked(lock, leave=False):
        for thread in threads:
            thread.start()
        time.sleep(0.2)
    for thread in threads:
        thread.join()
    assert [bool(item == "out") for item in within] == [False, True] * 3
    assert not lock.exists()
