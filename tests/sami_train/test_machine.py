"""Signals that ask long work to stop: their handlers within the block, and the earlier ones after it."""

import multiprocessing as mp
import signal

import pytest

from sami_train.evaluation.play import sharing
from sami_train.machine import on_stop_signals, one_thread

STOPS = signal.SIGINT, signal.SIGTERM, signal.SIGHUP


@pytest.fixture
def earlier():
    """The signals that reach the handlers of before the block."""
    numbers = []
    handlers = {number: signal.signal(number, lambda number, frame: numbers.append(number)) for number in STOPS}
    yield numbers
    for number, handler in handlers.items():
        signal.signal(number, handler)


def test_ctrl_c_sigterm_and_a_closed_terminal_reach_the_handler_and_the_earlier_ones_afterwards(earlier):
    numbers = []
    with on_stop_signals(lambda number, frame: numbers.append(number)):
        for number in STOPS:
            signal.raise_signal(number)
    signal.raise_signal(signal.SIGHUP)
    assert numbers == list(STOPS)
    assert earlier == [signal.SIGHUP]


def test_the_earlier_handlers_come_back_after_an_error_too(earlier):
    def interrupt(number, frame):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), on_stop_signals(interrupt):
        signal.raise_signal(signal.SIGHUP)
    signal.raise_signal(signal.SIGHUP)
    assert earlier == [signal.SIGHUP]


def test_under_nohup_a_closed_terminal_does_not_stop_the_work(earlier):
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with on_stop_signals(lambda number, frame: pytest.fail("stopped")):
        signal.raise_signal(signal.SIGHUP)
    assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN


def test_ctrl_c_ends_no_process_of_ours_while_it_starts():
    with one_thread():
        process = mp.get_context("spawn").Process(target=signal.raise_signal, args=(signal.SIGINT,))
        process.start()
    process.join()
    assert process.exitcode == 0


def test_ctrl_c_reaches_this_process_while_others_work():
    with sharing(dict, (), 2):
        assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])
