import pytest

from gymd.client.window import ACK_BATCH, CreditWindow


def test_the_first_grant_covers_the_first_tasks() -> None:
    window = CreditWindow(4)
    for _ in range(4):
        assert window.has_room(1)
        window.submit(1)
    assert not window.has_room(1)
    assert window.next_grant() is None


def test_a_grant_is_what_was_consumed_plus_the_window() -> None:
    window = CreditWindow(4)
    window.submit(4)
    window.consumed = 3
    assert window.has_room(3)
    window.submit(3)
    assert window.next_grant() == 7
    assert window.next_grant() is None


def test_a_rejected_task_gives_its_credits_back() -> None:
    window = CreditWindow(2)
    window.submit(2)
    window.take_back(2)
    assert window.has_room(2)
    assert window.outstanding == 0


def test_a_task_larger_than_the_window_goes_alone() -> None:
    window = CreditWindow(2)
    window.submit(1)
    assert not window.has_room(8)
    window.consumed = 1
    assert window.has_room(8)
    window.submit(8)
    assert window.next_grant() == 9
    assert not window.has_room(1)


def test_acks_wait_for_a_batch_or_for_idleness() -> None:
    window = CreditWindow(ACK_BATCH * 2)
    window.consumed = ACK_BATCH - 1
    assert window.next_ack(idle=False) is None
    assert window.next_ack(idle=True) == ACK_BATCH - 1
    assert window.next_ack(idle=True) is None
    window.consumed = 2 * ACK_BATCH
    assert window.next_ack(idle=False) == 2 * ACK_BATCH


def test_no_credits_are_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        CreditWindow(0)


def test_bytes_are_granted_in_shares_or_when_idle() -> None:
    window = CreditWindow(4, 100)
    window.consume(24)
    assert window.next_byte_grant(idle=False) is None
    assert window.next_byte_grant(idle=True) == 124
    assert window.next_byte_grant(idle=True) is None
    window.consume(25)
    assert window.next_byte_grant(idle=False) == 149


def test_a_result_larger_than_the_window_of_bytes_comes_alone() -> None:
    window = CreditWindow(4, 100)
    window.waiting_bytes = 700
    assert window.next_byte_grant(idle=False) == 700
    assert window.next_byte_grant(idle=False) is None
    window.waiting_bytes = 0  # it came
    assert window.next_byte_grant(idle=True) is None
    window.consume(700)
    assert window.next_byte_grant(idle=False) == 800


def test_bytes_that_are_not_counted_are_granted_once_where_they_were() -> None:
    window = CreditWindow(4)
    assert window.next_byte_grant(idle=True) is None
    window.adopt(consumed=2, used=2, granted=4, granted_bytes=50, consumed_bytes=50)
    granted = window.next_byte_grant(idle=False)
    assert granted is not None
    assert granted > 1 << 60
    window.consume(0)
    assert window.next_byte_grant(idle=True) is None


def test_what_was_stored_before_is_acknowledged_again() -> None:
    window = CreditWindow(4)
    window.adopt(consumed=3, used=3, granted=4)
    assert window.outstanding == 0
    assert window.next_ack(idle=True) == 3
