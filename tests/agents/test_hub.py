"""Policies in the layout of the Hugging Face Hub are read again, and the Hub's own library reads their pages."""

from __future__ import annotations

from pathlib import Path

import pytest

import hetgym
from hetgym.agents import load, write_hub_folder
from hetgym.agents.artefact import card_text, load_pair
from hetgym.agents.hub import page
from hetgym.agents.pretrained import FOLDER, card, names
from hetgym.errors import ArtefactError, HetgymError, UnknownName
from hetgym.workloads import textbook


@pytest.mark.parametrize("name", names())
def test_shipped_policies_are_written_twice_as_the_same_bytes_and_read_again(name: str, tmp_path: Path) -> None:
    if "known" not in card(name):
        pytest.importorskip("torch_geometric")
    folders = [write_hub_folder(name, tmp_path / part, licence="mit") for part in ("a", "b")]
    files = [{path.name: path.read_bytes() for path in folder.iterdir()} for folder in folders]
    assert files[0] == files[1] and files[0].keys() == {"model.safetensors", "config.json", "README.md"}
    assert load(folders[0]).card == load(name).card
    form = str(load(name).card["format"])
    ours, theirs = (load_pair(path, form)[1] for path in (FOLDER / name, folders[0]))
    assert all((ours[key] == theirs[key]).all() for key in ours)


def test_a_folder_is_a_scheduler_by_file_name(tmp_path: Path) -> None:
    folder = write_hub_folder("place-v1", tmp_path)
    scheduler = hetgym.baselines.get(str(folder / "model.safetensors"))
    assert scheduler(textbook("topcuoglu")).makespan == 73
    assert load(str(folder)).plan(textbook("topcuoglu")).makespan == 73


def test_trained_networks_are_written_and_read(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from hetgym.agents.network_policy import NetworkPolicy
    from hetgym.agents.networks import ActorCritic

    NetworkPolicy(ActorCritic("place"), {"env": "HetSchedule-v0"}).save(tmp_path / "policy.safetensors")
    folder = write_hub_folder(tmp_path / "policy.safetensors", tmp_path / "mine")
    again = write_hub_folder(folder, tmp_path / "again", name="mine")
    for read in (load(folder), load(again), load(folder / "model.safetensors")):
        assert isinstance(read, NetworkPolicy)
        assert read.plan(textbook("topcuoglu")).makespan > 0
    assert (folder / "README.md").read_bytes() == (again / "README.md").read_bytes()


def test_the_hub_reads_the_page(tmp_path: Path) -> None:
    hub = pytest.importorskip("huggingface_hub")
    folder = write_hub_folder("place-v1", tmp_path, name="a: name", licence="mit")
    card = hub.ModelCard.load(folder / "README.md")
    assert card.data.library_name == "hetgym" and card.data.license == "mit"
    assert card.data.pipeline_tag == "reinforcement-learning"
    (result,) = card.data.eval_results
    assert result.metric_value == load("place-v1").card["evaluation"]["return"]
    assert result.dataset_name == "HetSchedule-v0" and card.data.model_name == "a: name"


@pytest.mark.parametrize("value", [10**400, -(10**400), float("inf"), float("nan")])
def test_figures_that_no_float_holds_are_refused(value: float) -> None:
    with pytest.raises(ArtefactError, match=r"the evaluation of the card has 'return' = .*, not a finite number"):
        page({"evaluation": {"return": value}}, "a")


def test_a_page_holds_plain_text_only() -> None:
    card = {
        "env": "E\n# x\ud800",
        "evaluation": {"a\nb": 1.0},
        "recipe": {"description": "d\x1b[1m", "algorithm": "ppo"},
    }
    found = page(card, "title\n\ud800")
    assert found.encode() and "\x1b" not in found and "# title \\ud800" in found and "| `a b` | 1 |" in found


def test_what_is_no_policy_is_refused(tmp_path: Path) -> None:
    target = tmp_path / "out"
    with pytest.raises(UnknownName, match="place-v1"):
        write_hub_folder("place-v9", target)
    (tmp_path / "no.safetensors").write_bytes(b"12345678901234567890")
    with pytest.raises(ArtefactError, match="not a readable safetensors file"):
        write_hub_folder(tmp_path / "no.safetensors", target)
    assert not target.exists()
    with pytest.raises(ArtefactError, match=r"config\.json"):
        load(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(ArtefactError, match="no folder can be made there"):
        write_hub_folder("place-v1", tmp_path / "file" / "below")
    with pytest.raises(ArtefactError, match="not figures by name"):
        page({"evaluation": [1]}, "x")
    with pytest.raises(ArtefactError, match="the recipe of the card"):
        page({"recipe": "none"}, "x")
    with pytest.raises(ArtefactError, match="infinite or NaN"):
        card_text({"scale": float("inf")})
    folder = write_hub_folder("place-v1", target)
    (folder / "config.json").write_text('{"format": "other"}')
    with pytest.raises(ArtefactError, match="format version"):
        load(folder)
    (folder / "config.json").write_text("[" * 9)
    with pytest.raises(HetgymError):
        load(folder)
