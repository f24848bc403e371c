import signal
import threading

import pytest

from labkit.training.interrupts import StopRequest


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_is_noted_the_second_interrupts_and_the_handlers_come_back(number):
    before = [signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)]
    with pytest.raises(KeyboardInterrupt), StopRequest() as stop:
        signal.raise_signal(number)
        assert stop.requested
        signal.raise_signal(number)
    assert [signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)] == before


def test_until_ends_with_the_item_in_hand():
    with StopRequest() as stop:
        seen = []
        for item in stop.until(range(10)):
            seen.append(item)
            if item == 3:
                signal.raise_signal(signal.SIGINT)
    assert seen == [0, 1, 2, 3]


def test_in_another_thread_it_changes_no_handler():
    before, seen = signal.getsignal(signal.SIGINT), []

    def work():
        with StopRequest() as stop:
            seen.append((signal.getsignal(signal.SIGINT), stop.requested))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [(before, False)]
