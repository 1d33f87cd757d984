"""A record holds its tick whole: what is kept needs neither the session nor the loop any more."""

from sami_runtime.loop.episode import run_episode
from sami_runtime.session.session import Session
from sami_runtime.session.telemetry import Telemetry


def test_a_record_keeps_the_state_and_what_the_contexts_told(path, arm):
    session, records, expected = Session.load(path), [], []
    by_hand = Telemetry(session.contract)

    def watch(record):
        by_hand(record)
        records.append(record)
        expected.append((session.digest, by_hand.now))

    adapter = arm(nan_at_reads=[4])
    for seed in (0, 1):
        run_episode(session, adapter, seed, on_step=watch)
    assert [(record.state, record.telemetry) for record in records] == expected
    # At the refused tick nothing moved; all others differ.
    assert records[4].state == records[3].state
    assert len({record.state for record in records}) == 19


def test_telemetry_that_was_given_reads_each_episode_from_its_beginning(path, arm):
    session, records = Session.load(path), []
    telemetry = Telemetry(session.contract)
    for _ in range(2):
        run_episode(session, arm(), telemetry=telemetry)
        assert telemetry.now.step == 9
    run_episode(session, arm(), max_steps=3, telemetry=telemetry, on_step=records.append)
    assert [record.telemetry.step for record in records] == [0, 1, 2]
    assert records[-1].telemetry is telemetry.now
