"""Signals: heard within, and by whom they were heard before once it is over."""

import signal
import subprocess
import sys

import pytest

from sami_train.machine import on_signals

BOTH = signal.SIGUSR1, signal.SIGUSR2


@pytest.fixture
def earlier():
    """What hears both signals before and after."""
    numbers = []
    before = {number: signal.signal(number, lambda number, frame: numbers.append(number)) for number in BOTH}
    yield numbers
    for number, handler in before.items():
        signal.signal(number, handler)


def test_signals_are_heard_within_and_by_the_earlier_handler_afterwards(earlier):
    numbers = []
    with on_signals(lambda number, frame: numbers.append(number), *BOTH):
        for number in BOTH:
            signal.raise_signal(number)
    signal.raise_signal(signal.SIGUSR1)
    assert numbers == list(BOTH)
    assert earlier == [signal.SIGUSR1]


def test_the_earlier_handler_comes_back_after_an_error_too(earlier):
    def interrupt(number, frame):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), on_signals(interrupt, *BOTH):
        signal.raise_signal(signal.SIGUSR2)
    signal.raise_signal(signal.SIGUSR2)
    assert earlier == [signal.SIGUSR2]


def test_other_signals_are_left_alone(earlier):
    with on_signals(signal.SIG_IGN, signal.SIGUSR1):
        for number in BOTH:
            signal.raise_signal(number)
    assert earlier == [signal.SIGUSR2]


def test_processes_started_within_ignore_what_is_ignored(earlier):
    script = "import signal; print(signal.getsignal(signal.SIGUSR1) == signal.SIG_IGN)"
    with on_signals(signal.SIG_IGN, signal.SIGUSR1):
        within = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    after = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (within.stdout, after.stdout) == ("True\n", "False\n")
