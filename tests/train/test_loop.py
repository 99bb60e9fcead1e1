# SPDX-License-Identifier: Apache-2.0
import io

import numpy as np
import pytest

from purax import numpy as pnp
from purax.train import History, Mean, Progress, accuracy, count_correct, draw_history, fit


def countdown(state, batch):
    return state - batch, float(state)


def test_the_loop_gives_every_loss_in_order_and_the_numbers_of_each_epoch():
    ended, first = [], []
    result = fit(
        10.0,
        countdown,
        lambda epoch: [1.0, 2.0],
        epochs=2,
        steps_per_epoch=2,
        evaluate=lambda state: {"left": state},
        on_epoch=lambda state, history: ended.append((state, len(history.losses))),
        on_first_loss=first.append,
        progress=False,
    )
    assert result.history.losses == [10.0, 9.0, 7.0, 6.0]
    assert [epoch["left"] for epoch in result.history.epochs] == [7.0, 4.0]
    assert ended == [(7.0, 2), (4.0, 4)]
    assert first == [10.0]
    assert not result.interrupted


def test_an_interrupt_gives_the_state_after_the_last_whole_step():
    def step(state, batch):
        if batch == 3:
            raise KeyboardInterrupt
        return state + 1, 0.0

    result = fit(0, step, lambda epoch: [1, 2, 3, 4], epochs=1, steps_per_epoch=4, progress=False)
    assert result.interrupted
    assert result.state == 2


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_sees_one_line_that_is_redrawn():
    out = Terminal()
    with Progress(4, "work", out) as bar:
        for _ in range(4):
            bar.update(loss=0.5)
    assert out.getvalue().count("\n") == 1
    assert "100 %" in out.getvalue()
    assert "#" * 24 in out.getvalue()
    assert "loss 0.5" in out.getvalue()


def test_a_file_sees_ten_plain_lines():
    out = io.StringIO()
    with Progress(100, "work", out) as bar:
        for _ in range(100):
            bar.update()
    lines = out.getvalue().splitlines()
    assert len(lines) == 10
    assert "\r" not in out.getvalue()
    assert lines[-1].startswith("work 100 %  100/100")


def test_a_disabled_bar_is_silent():
    out = io.StringIO()
    with Progress(2, "work", out, enabled=False) as bar:
        bar.update(2)
    assert out.getvalue() == ""


def test_metrics_count_right_answers():
    scores = pnp.asarray([[0.1, 0.9], [0.8, 0.2], [0.3, 0.7]])
    labels = pnp.asarray([1, 1, -1])
    assert int(count_correct(scores, labels)) == 1
    assert float(accuracy(scores, labels)) == pytest.approx(1 / 3)
    assert np.isnan(Mean().value)


def test_the_running_mean_of_equal_losses_is_that_loss():
    history = History()
    for _ in range(5):
        history.add_loss(2.0)
    np.testing.assert_allclose(history.smooth_losses(), 2.0)


def test_the_loss_curve_is_drawn_as_a_picture(tmp_path):
    history = History()
    for loss in (2.0, 1.0, 0.5):
        history.add_loss(loss)
    history.end_epoch(accuracy=0.9)
    draw_history(tmp_path / "loss.png", history)
    assert (tmp_path / "loss.png").read_bytes().startswith(b"\x89PNG")
