"""Other people's loaders, given to a feed as they are."""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import until

import framelane as fl

PICTURE = (4, 6, 3)


def device() -> str:
    """CUDA where there is one: batches come off it by any library's means."""
    try:
        fl.counters("cuda")
    except fl.Error:
        return "cpu"
    return "cuda"


def number(tensor: Any) -> list[int]:
    """What each picture of a batch is full of. It must be full of it."""
    if hasattr(tensor, "cpu"):
        array = tensor.cpu().numpy()
    elif device() == "cuda":
        array = pytest.importorskip("cupy", reason="no CuPy here to read framelane's tensors").from_dlpack(tensor).get()
    else:
        array = np.asarray(tensor)
    first = array.reshape(len(array), -1)[:, :1]
    assert (array.reshape(len(array), -1) == first).all()
    return [int(value) for value in first[:, 0]]


def pictures(count: int) -> list[dict[str, Any]]:
    return [{"image": np.full(PICTURE, n, np.uint8), "label": np.int64(n)} for n in range(count)]


@pytest.fixture
def shard(tmp_path: Path) -> str:
    """Ten pictures in a tar file, as WebDataset has them."""
    path = tmp_path / "shard.tar"
    with tarfile.open(path, "w") as tar:
        for n in range(10):
            array = io.BytesIO()
            np.save(array, np.full(PICTURE, n, np.uint8))
            for name, data in {f"{n:04}.image.npy": array.getvalue(), f"{n:04}.cls": str(n).encode()}.items():
                entry = tarfile.TarInfo(name)
                entry.size = len(data)
                tar.addfile(entry, io.BytesIO(data))
    return str(path)


def test_webdataset(shard: str) -> None:
    wds: Any = pytest.importorskip("webdataset", reason="no WebDataset here: pip install webdataset")
    data = wds.WebDataset(shard, shardshuffle=False).decode().to_tuple("image.npy", "cls", "__key__").batched(4)
    with fl.feed(data, device=device()) as feed:
        for _ in range(2):
            got = [(number(image), number(label), names) for image, label, names in feed]
            assert [image for image, _, _ in got] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
            assert [label for _, label, _ in got] == [image for image, _, _ in got]
            assert got[2][2] == ["0008", "0009"]


def test_webdataset_of_dicts(shard: str) -> None:
    wds: Any = pytest.importorskip("webdataset", reason="no WebDataset here: pip install webdataset")
    for n, sample in enumerate(fl.feed(wds.WebDataset(shard, shardshuffle=False).decode(), device=device())):
        assert sample["__key__"] == f"{n:04}"
        assert sample["cls"] == n
        assert set(number(sample["image.npy"])) == {n}


def test_webdataset_with_a_broken_sample(shard: str) -> None:
    wds: Any = pytest.importorskip("webdataset", reason="no WebDataset here: pip install webdataset")

    def broken(sample: Any) -> Any:
        if sample["cls"] == 3:
            raise OverflowError("sample 3 is broken")
        return sample["image.npy"]

    feed, got = fl.feed(wds.WebDataset(shard, shardshuffle=False).decode().map(broken), device=device()), []
    with pytest.raises(OverflowError, match="sample 3 is broken"):
        for image in feed:
            got += set(number(image))
    assert got == [0, 1, 2]


def test_grain() -> None:
    grain: Any = pytest.importorskip("grain", reason="no Grain here: pip install grain")
    data = grain.MapDataset.source(pictures(10)).batch(4)
    feed = fl.feed(data, device=device())
    assert len(feed) == 3
    for _ in range(2):
        got = [(number(batch["image"]), number(batch["label"])) for batch in feed]
        assert [image for image, _ in got] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
        assert all(image == label for image, label in got)
    # Its iterators go on where another was.
    iterator = iter(data.to_iter_dataset())
    next(iterator)
    state = iterator.get_state()
    again = iter(data.to_iter_dataset())
    again.set_state(state)
    assert [number(batch["label"]) for batch in fl.feed(again, device=device())] == [[4, 5, 6, 7], [8, 9]]


def test_grains_loader() -> None:
    grain: Any = pytest.importorskip("grain", reason="no Grain here: pip install grain")
    loader = grain.DataLoader(
        data_source=pictures(10),
        sampler=grain.samplers.SequentialSampler(10, grain.sharding.NoSharding()),
        operations=[grain.transforms.Batch(4)],
    )
    with fl.feed(loader, device=device()) as feed:
        assert [number(batch["label"]) for batch in feed] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


def test_tensorflow() -> None:
    tf: Any = pytest.importorskip("tensorflow", reason="no TensorFlow here: pip install tensorflow")
    images = np.stack([picture["image"] for picture in pictures(10)])
    data = tf.data.Dataset.from_tensor_slices({"image": images, "label": np.arange(10)}).batch(4).prefetch(2)
    # Its tensors, and NumPy's arrays.
    for given in (data, data.as_numpy_iterator()):
        got = [(number(batch["image"]), number(batch["label"])) for batch in fl.feed(given, device=device())]
        assert [image for image, _ in got] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
        assert all(image == label for image, label in got)


@pytest.mark.parametrize("workers", [0, 2])
def test_torchs_loader(workers: int) -> None:
    torch: Any = pytest.importorskip("torch", reason="no PyTorch here: pip install torch")
    data = [(torch.from_numpy(picture["image"]), int(picture["label"])) for picture in pictures(10)]
    loader = torch.utils.data.DataLoader(data, batch_size=4, num_workers=workers, multiprocessing_context="spawn" if workers else None)
    with fl.feed(loader, device=device()) as feed:
        assert len(feed) == 3
        for _ in range(2):
            for image, label in feed:
                assert isinstance(image, torch.Tensor)
                assert image.device.type == device()
                assert number(image) == number(label)
        # Left early, and again from the start in a feed of its own.
        for image, label in feed:
            assert number(label) == [0, 1, 2, 3]
            break


class Failing:
    """A data set of PyTorch's kind whose fifth item is broken."""

    def __len__(self) -> int:
        return 8

    def __getitem__(self, n: int) -> Any:
        if n == 5:
            raise OverflowError("item 5 is broken")
        return np.full(PICTURE, n, np.uint8)


def test_an_error_of_torchs_worker_keeps_its_type() -> None:
    torch: Any = pytest.importorskip("torch", reason="no PyTorch here: pip install torch")
    loader = torch.utils.data.DataLoader(Failing(), batch_size=2, num_workers=1, multiprocessing_context="spawn")
    got: list[int] = []
    with pytest.raises(OverflowError, match="item 5 is broken"):
        for image in fl.feed(loader, device=device()):
            got += number(image)
    assert got == [0, 1, 2, 3]


SHARDS = '''
import os, sys
import numpy as np, torch
import framelane as fl

torch.distributed.init_process_group("gloo")
rank, device = torch.distributed.get_rank(), sys.argv[1]
if device == "cuda":
    # One GPU a process, as far as there are such.
    device = f"cuda:{int(os.environ['LOCAL_RANK']) % torch.cuda.device_count()}"
    torch.cuda.set_device(device)
data = [torch.full((4, 6, 3), n, dtype=torch.uint8) for n in range(16)]
sampler = torch.utils.data.DistributedSampler(data, shuffle=True)
loader = torch.utils.data.DataLoader(data, batch_size=2, sampler=sampler)
seen = torch.zeros(16, dtype=torch.long)
with fl.feed(loader, device=device) as feed:
    for epoch in range(3):
        sampler.set_epoch(epoch)
        for batch in feed:
            assert str(batch.device) == device, (batch.device, device)
            for picture in batch:
                (value,) = picture.unique().tolist()
                seen[value] += 1
torch.distributed.all_reduce(seen)
assert seen.tolist() == [3] * 16, seen
if rank == 0:
    print("each of 16 was fed thrice")
torch.distributed.destroy_process_group()
'''


def test_torchrun(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="no PyTorch here: pip install torch")
    script = tmp_path / "shards.py"
    script.write_text(SHARDS)
    program = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(script), device()]
    done = subprocess.run(program, capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0, done.stderr
    assert "each of 16 was fed thrice" in done.stdout


class Loader:
    """What a loader does: an iterator that has files and threads to let go."""

    def __init__(self) -> None:
        self.closed = 0

    def __iter__(self) -> Iterator[Any]:
        try:
            for n in range(100):
                yield np.full(PICTURE, n, np.uint8)
        finally:
            self.closed += 1


def test_what_an_iterator_has_is_let_go() -> None:
    loader = Loader()
    with fl.feed(loader, device=device()) as feed:
        next(feed)
    assert loader.closed == 1
    feed = fl.feed(loader, device=device())
    next(feed)
    del feed
    until(lambda: loader.closed == 2)
