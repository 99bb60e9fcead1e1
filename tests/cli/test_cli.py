# SPDX-License-Identifier: Apache-2.0
import os
import signal
import subprocess
import sys

import numpy as np
import pytest

import purax
from purax.cli import main
from purax.cli.predict import draw
from purax.runtime import cache


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("digits")
    assert main(["train", "digits", "--epochs", "5", "--out", str(place), "--quiet"]) == 0
    return place


def test_training_prints_its_accuracy_and_saves_parameters_and_a_picture(tmp_path, capsys):
    code = main(["train", "digits", "--epochs", "1", "--batch-size", "128", "--seed", "3", "--out", str(tmp_path)])
    out, err = capsys.readouterr()
    assert code == 0
    assert "first loss" in out
    line = next(line for line in out.splitlines() if line.startswith("test accuracy"))
    assert 0.0 <= float(line.split()[2]) <= 100.0
    assert line.endswith(" %")
    assert "training 100 %" in err
    assert (tmp_path / "params.safetensors").stat().st_size > 10_000
    assert (tmp_path / "loss.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("optimizer", ["adamw", "lion", "rmsprop", "sgd"])
def test_every_optimizer_on_offer_learns(optimizer, tmp_path, capsys):
    words = ["train", "digits", "--epochs", "3", "--optimizer", optimizer, "--out", str(tmp_path), "--quiet"]
    assert main([*words, "--no-picture"]) == 0
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("test accuracy"))
    assert float(line.split()[2]) > 80.0
    assert not (tmp_path / "loss.png").exists()


def test_predictions_show_the_image_the_label_and_the_right_answer(folder, capsys):
    assert main(["predict", str(folder / "params.safetensors"), "--index", "2", "--index", "-1"]) == 0
    out = capsys.readouterr().out
    assert "image 2: " in out
    assert "(right: " in out
    assert out.count("% sure") == 2
    assert "@" in out


def test_predictions_for_a_file_of_images_are_one_label_a_line_if_asked_for(folder, tmp_path, capsys):
    images = np.zeros((3, 8, 8), np.uint8)
    images[:, :, 3:5] = 16
    np.save(tmp_path / "images.npy", images)
    assert main(["predict", str(folder / "params.safetensors"), str(tmp_path / "images.npy"), "--all"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 3


def test_images_are_drawn_with_letters():
    image = np.zeros((8, 8))
    image[0, 0] = 1.0
    assert draw(image)[0] == "@@" + "  " * 7


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["predict", "{folder}/absent.safetensors"], "absent.safetensors"),
        (["predict", "{model}", "{folder}/absent.npy"], "there is no file"),
        (["predict", "{model}", "{folder}/text.npy"], "is no NumPy array file"),
        (["predict", "{model}", "{folder}/wrong.npy"], "images must be 8 x 8 pixels"),
        (["predict", "{model}", "{folder}/empty.npy"], "empty.npy holds no images"),
        (["predict", "{model}", "{folder}/nan.npy"], "image 1 holds a pixel that is NaN"),
        (["predict", "{model}", "{folder}/complex.npy"], "images must be real numbers"),
        (["predict", "{model}", "{folder}/scalar.npy"], "images must be 8 x 8 pixels"),
        (["predict", "{folder}/retyped.safetensors"], "its checksum is not the one it was written with"),
        (["predict", "{model}", "--index", "400"], "there is no image 400; there are 359"),
        (["predict", "{folder}/text.npy"], "does not hold whole safetensors data"),
    ],
)
def test_errors_are_one_line_without_a_traceback(words, message, folder, tmp_path, capsys):
    (tmp_path / "text.npy").write_text("hello")
    np.save(tmp_path / "wrong.npy", np.zeros((2, 28, 28)))
    np.save(tmp_path / "empty.npy", np.zeros((0, 8, 8)))
    np.save(tmp_path / "nan.npy", np.stack([np.zeros((8, 8)), np.full((8, 8), np.nan)]))
    np.save(tmp_path / "complex.npy", np.zeros((2, 8, 8), complex))
    np.save(tmp_path / "scalar.npy", np.float32(1))
    whole = (folder / "params.safetensors").read_bytes()
    (tmp_path / "retyped.safetensors").write_bytes(whole.replace(b'"F32"', b'"I32"', 1))
    names = {"folder": str(tmp_path), "model": str(folder / "params.safetensors")}
    assert main([word.format(**names) for word in words]) == 1
    err = capsys.readouterr().err
    assert err.startswith("purax: error: ")
    assert message in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["train", "cats"], "invalid choice: 'cats'"),
        (["train", "digits", "--epochs", "0"], "'0' is not a whole number above 0"),
        (["train", "digits", "--seed", "-1"], "is not a whole number from 0"),
        (["train", "digits", "--learning-rate", "nan"], "'nan' is not a number above 0"),
        ([], "required"),
    ],
)
def test_wrong_words_are_explained(words, message, capsys):
    with pytest.raises(SystemExit) as caught:
        main(words)
    assert caught.value.code == 2
    assert message in capsys.readouterr().err


def test_the_doctor_names_versions_devices_and_the_cache(capsys):
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    assert "jaxlib" in out
    assert "cpu: 8" in out
    assert "cache" in out


def test_the_cache_is_described_and_cleared(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(cache, "directory", lambda: tmp_path)
    assert main(["cache", "info"]) == 0
    assert f"{tmp_path}: 0 programs" in capsys.readouterr().out
    assert main(["cache", "clear"]) == 0
    assert "removed 0 programs" in capsys.readouterr().out


def run_module(*words, **settings):
    environment = os.environ | {"PURAX_CACHE": "off", "PURAX_NUM_CPU_DEVICES": "1"} | settings
    environment["PYTHONPATH"] = os.path.dirname(os.path.dirname(purax.__file__))
    return subprocess.Popen(
        [sys.executable, "-m", "purax", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )


def test_a_second_run_compiles_nothing(tmp_path):
    words = ["train", "digits", "--epochs", "1", "--batch-size", "256", "--quiet", "--no-picture", "--out"]
    outputs = []
    for _ in range(2):
        process = run_module(*words, str(tmp_path / "out"), PURAX_CACHE="on", PURAX_CACHE_DIR=str(tmp_path / "cache"))
        out, err = process.communicate(timeout=100)
        assert process.returncode == 0, err
        outputs.append(next(line for line in out.splitlines() if line.startswith("first loss")))
    assert "(2 programs compiled, 0 from the cache)" in outputs[0]
    assert "(0 programs compiled, 2 from the cache)" in outputs[1]


def test_an_interrupt_keeps_the_parameters_of_the_last_epoch(tmp_path):
    process = run_module("train", "digits", "--epochs", "10000", "--batch-size", "512", "--out", str(tmp_path))
    path = tmp_path / "params.safetensors"
    try:
        for _ in range(600):
            if path.exists():
                break
            try:
                process.wait(0.1)
            except subprocess.TimeoutExpired:
                continue
            break
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130, err
    assert "interrupted" in err
    assert "Traceback" not in err
    assert main(["predict", str(path), "--index", "0"]) == 0
    assert (tmp_path / "checkpoint.safetensors").exists()


LOADING = """
import signal, sys
sys.argv[:] = sys.argv[2:]
# Said, not found: a shell starts what it runs in the background with interrupts ignored.
handlers = {"ignored": signal.SIG_IGN, "usual": signal.default_int_handler}
signal.signal(signal.SIGINT, handlers[sys.argv.pop()])
import purax
while_loading = signal.getsignal(signal.SIGINT)
from purax.cli import main
main(["cache", "info"])
print(while_loading, signal.getsignal(signal.SIGINT), file=sys.stderr)
"""


@pytest.mark.parametrize(
    ("command", "before", "expected"),
    [
        ("-m", "usual", (signal.SIG_DFL, signal.default_int_handler)),
        ("/usr/bin/purax", "usual", (signal.SIG_DFL, signal.default_int_handler)),
        ("script.py", "usual", (signal.default_int_handler, signal.default_int_handler)),
        ("-m", "ignored", (signal.SIG_IGN, signal.SIG_IGN)),
    ],
)
def test_an_interrupt_of_a_command_that_is_being_loaded_ends_it_without_a_traceback(command, before, expected):
    environment = os.environ | {"PYTHONPATH": os.path.dirname(os.path.dirname(purax.__file__))}
    words = [sys.executable, "-c", LOADING, "", command, before]
    done = subprocess.run(words, env=environment, capture_output=True, text=True)
    assert done.stderr.strip() == " ".join(map(str, expected)), done.stderr


def test_resuming_with_other_settings_is_refused(folder, capsys):
    assert main(["train", "digits", "--epochs", "9", "--out", str(folder), "--resume", "--quiet"]) == 1
    assert "epochs was 5, now 9" in capsys.readouterr().err


def test_resuming_a_finished_training_gives_its_result(folder, capsys):
    before = (folder / "params.safetensors").read_bytes()
    words = ["train", "digits", "--epochs", "5", "--out", str(folder), "--resume", "--quiet", "--no-picture"]
    assert main(words) == 0
    assert "test accuracy" in capsys.readouterr().out
    assert (folder / "params.safetensors").read_bytes() == before


def test_two_commands_find_what_they_need_without_loading_matplotlib():
    code = "import sys; from purax.cli import main; main(['cache', 'info']); sys.exit('matplotlib' in sys.modules)"
    environment = os.environ | {"PYTHONPATH": os.path.dirname(os.path.dirname(purax.__file__))}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment, stdout=subprocess.DEVNULL)


def test_what_a_training_needs_is_looked_for_before_it(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("purax.cli.train.find_spec", lambda name: None)
    assert main(["train", "digits", "--out", str(tmp_path / "out")]) == 1
    assert "safetensors and matplotlib: not installed" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
