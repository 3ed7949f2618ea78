"""What there is of a cluster, under which name, and who holds it."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuready_sim.cluster.places import Place, PlaceError, State, owned, refuse_running, running_pid


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return Place.of("one")


def test_the_state_follows_lock_socket_and_directory(place: Place):
    assert place.state is State.ABSENT
    with owned(place):
        place.clean()
        assert place.state is State.CHANGING
        place.control.touch()
        assert place.state is State.RUNNING
    assert place.state is State.ENDED
    place.remove()
    assert place.state is State.ABSENT


def test_a_second_owner_is_refused_and_told_what_to_do(place: Place):
    with owned(place):
        with pytest.raises(PlaceError) as caught, owned(place):
            pass
        with pytest.raises(PlaceError, match="is running already"):
            refuse_running(place)

    assert caught.value.what == "cluster one is running already"
    assert "`gpuready-sim down --name one`" in caught.value.next_step
    refuse_running(place)


def test_the_lock_goes_with_its_owner(place: Place):
    with owned(place):
        assert running_pid(place) is not None

    assert not place.lock.exists()


def test_a_lock_that_a_killed_owner_left_is_taken_over(place: Place):
    place.lock.parent.mkdir(parents=True)
    place.lock.write_text("1")

    with owned(place):
        assert running_pid(place) is not None


def test_the_default_name_is_left_out_of_commands():
    assert Place.of("gpuready").command("down") == "gpuready-sim down"
    assert Place.of("b").command("down") == "gpuready-sim down --name b"


def test_a_place_that_cannot_be_made_is_refused_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))

    with pytest.raises(PlaceError, match="cannot keep a cluster") as caught, owned(Place.of("one")):
        pass
    assert "XDG_STATE_HOME" in caught.value.next_step
