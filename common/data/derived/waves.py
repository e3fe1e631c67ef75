"""A made set of signals: six shapes, recorded by five sensors in three channels."""

import numpy as np
import numpy.typing as npt

from fedmirage.common.data.files.raw import PictureForm, Raw, RawSplit
from fedmirage.common.seeds import numpy_generator

CHANNELS, LENGTH, SENSORS = 3, 64, 5
TRAIN, TEST = 1200, 300
Numbers = npt.NDArray[np.float64]


def make_waves(noise: float, seed: int, form: PictureForm) -> Raw:
    """Make both splits; every class and every sensor has as many signals as any other."""
    sensors = numpy_generator(seed, "waves", "sensors")
    gain = 1 + 0.3 * sensors.standard_normal((SENSORS, CHANNELS, 1))
    offset = 0.5 * sensors.standard_normal((SENSORS, CHANNELS, 1))
    loudness = noise * np.linspace(0.5, 1.5, SENSORS)[:, None, None]
    splits = []
    for name, count in (("train", TRAIN), ("test", TEST)):
        generator = numpy_generator(seed, "waves", name)
        labels = np.arange(count) % len(SHAPES)
        sensor = np.arange(count) // len(SHAPES) % SENSORS
        clean = draw_shapes(labels, generator)  # (samples, channels, steps)
        hiss = loudness[sensor] * generator.standard_normal(clean.shape)
        signals = (gain[sensor] * clean + offset[sensor] + hiss).astype(np.float32)
        order = generator.permutation(count)
        columns = {"domain": sensor[order].astype(np.int64)}
        splits.append(RawSplit(signals[order], labels[order].astype(np.int64), columns))
    train = splits[0].images.astype(np.float64)
    scale = tuple(train.mean((0, 2)).tolist()), tuple(train.std((0, 2)).tolist())
    return Raw(splits[0], splits[1], scale=scale)


def draw_shapes(labels: npt.NDArray[np.int64], generator: np.random.Generator) -> Numbers:
    """Draw one signal per label; the second channel lags behind, the third is weak and reversed."""
    count = len(labels)
    cycles = generator.uniform(2, 5, (count, 1))
    start = generator.uniform(0, 1, (count, 1))
    strength = generator.uniform(0.6, 1.4, (count, 1))
    channels = []
    for lag, factor in ((0.0, 1.0), (0.2, 0.8), (0.0, -0.5)):
        time = np.linspace(0, 1, LENGTH)[None]  # (1, steps)
        phase = cycles * time + start - lag
        shapes = np.stack([shape(phase, time) for shape in SHAPES.values()])
        channels.append(factor * strength * shapes[labels, np.arange(count)])
    return np.stack(channels, axis=1)


def _sine(phase: Numbers, time: Numbers) -> Numbers:
    return np.sin(2 * np.pi * phase)


def _square(phase: Numbers, time: Numbers) -> Numbers:
    return np.sign(np.sin(2 * np.pi * phase))


def _sawtooth(phase: Numbers, time: Numbers) -> Numbers:
    return 2 * (phase % 1) - 1


def _chirp(phase: Numbers, time: Numbers) -> Numbers:
    return np.sin(2 * np.pi * phase * (0.5 + time))


def _two_tones(phase: Numbers, time: Numbers) -> Numbers:
    return 0.7 * (np.sin(2 * np.pi * phase) + np.sin(5 * np.pi * phase))


def _burst(phase: Numbers, time: Numbers) -> Numbers:
    envelope: Numbers = np.exp(-40 * (time - 0.5) ** 2)
    return np.sin(4 * np.pi * phase) * envelope


SHAPES = {
    "sine": _sine,
    "square": _square,
    "sawtooth": _sawtooth,
    "chirp": _chirp,
    "two tones": _two_tones,
    "burst": _burst,
}
