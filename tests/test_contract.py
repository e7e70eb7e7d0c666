"""What other people's files and programs rely on, listed: names that configurations,
commands and other packages use, and what stands in files.

What is registered under a new name is added here. Whoever removes or renames an entry
breaks something of somebody: the old name has to work, or to fail with a message, and
the changelog has to say so.
tests/made_by_0_2 holds files that were written before.
"""

import dataclasses
import inspect
import json
from importlib.metadata import distribution

import pytest
import spacy
from spacy import registry as spacy_registry
from typer.main import get_command
from typer.testing import CliRunner

from spacy_elmo import embed
from spacy_elmo.bilm.config import BiLMConfig
from spacy_elmo.bilm.kernels.kernel import KERNELS
from spacy_elmo.bilm.weights import own
from spacy_elmo.cli import app
from spacy_elmo.cli.renamed import COMMANDS as COMMANDS_OF_0_2
from spacy_elmo.cli.renamed import OPTIONS
from spacy_elmo.embed import plan
from spacy_elmo.pretrain import checkpoint, config, loggers
from spacy_elmo.registry import registry
from spacy_elmo.text import shards

from .cli.parsing import parse

ENTRY_POINTS = {
    "spacy_factories": "elmo",
    "spacy_architectures": """
        spacy-elmo.BiLM.v1 spacy-elmo.ElmoListener.v1 spacy-elmo.Tok2Vec.v1
        spacy-elmo.Embed.v1 spacy-elmo.Encode.v1 spacy-elmo.StaticVectors.v1
        spacy-elmo.CharCnn.v1 spacy-elmo.Words.v1""",
    "spacy_readers": "spacy-elmo.WeightsReader.v1",
    "spacy_callbacks": "spacy-elmo.UseLayerCache.v1 spacy-elmo.Unfreeze.v1",
    "spacy_misc": "spacy-elmo.Windows.v1",
    "spacy_cli": "elmo",
}
REGISTERED = {
    "objectives": """spacy-elmo.FullSoftmax.v1 spacy-elmo.AdaptiveSoftmax.v1
        spacy-elmo.SampledSoftmax.v1""",
    "optimizers": """spacy-elmo.Adam.v1 spacy-elmo.Muon.v1 spacy-elmo.Adagrad.v1
        spacy-elmo.SGD.v1""",
    "schedules": """spacy-elmo.WarmupCosine.v1 spacy-elmo.WarmupLinear.v1
        spacy-elmo.WarmupStableDecay.v1 spacy-elmo.Constant.v1""",
    "formats": "spacy-elmo bilm-tf bilm-tf-checkpoint many-langs tf-hub zip",
    "sinks": "safetensors hdf5 parquet",
}
SIZES = """hidden_dim projection_dim n_layers n_words word_dim characters char_dim
    filters activation n_highway max_characters n_characters token_projection
    lstm_projection skip_connections cell_clip proj_clip forget_bias"""
MIX = "mix mix_weights layer_norm gamma"
# The arguments of what is registered, which are keys of configurations.
SETTINGS = {
    ("architectures", "BiLM"): f"{SIZES} batch_tokens cache_words precision get_spans",
    ("architectures", "ElmoListener"): f"{MIX} width upstream dropout l2",
    ("architectures", "Tok2Vec"): f"{MIX} bilm frozen learn_rate_factor dropout l2",
    ("architectures", "Embed"): "embed elmo width",
    ("architectures", "Encode"): "embed encode elmo width at",
    # They name spaCy's own, which stand in their place.
    ("architectures", "StaticVectors"): "width",
    ("architectures", "CharCnn"): "width char_dim filters n_highway max_characters",
    ("architectures", "Words"): "embed weights",
    ("readers", "WeightsReader"): "path",
    ("callbacks", "UseLayerCache"): "layer_cache layer_cache_mb name",
    ("callbacks", "Unfreeze"): "steps name",
    ("misc", "Windows"): "length",
    ("objectives", "FullSoftmax"): "",
    ("objectives", "AdaptiveSoftmax"): "cutoffs",
    ("objectives", "SampledSoftmax"): "samples",
    ("optimizers", "Adam"): "learn_rate beta1 beta2 eps weight_decay",
    ("optimizers", "Muon"): """learn_rate momentum ns_steps weight_decay beta1 beta2
        eps""",
    ("optimizers", "Adagrad"): "learn_rate initial_accumulator",
    ("optimizers", "SGD"): "learn_rate",
    ("schedules", "WarmupCosine"): "warmup_steps final",
    ("schedules", "WarmupLinear"): "warmup_steps final",
    ("schedules", "WarmupStableDecay"): "warmup_steps decay_steps final",
    ("schedules", "Constant"): "warmup_steps",
}
COMPONENT = f"""{MIX} factory model weights frozen set_tensor max_layers_mb
    learn_rate_factor similarity_hooks learn_rate unfreeze_every"""
PRETRAIN = {
    config.TextConfig: """train dev also lang tokenizer sentences processes max_tokens
        dev_max_tokens note licence""",
    config.VocabConfig: "size min_count",
    config.TrainingConfig: """init new_softmax softmax_first batch_size accumulate
        unroll_steps epochs max_steps clip_norm dropout precision eval_every save_every
        log_every seed threads device save_dtype tensorboard""",
}
EMBED = {
    "Options": """reading computing mix_of kind layers dtype pool shard_mb
        limit_mb""",
    "reading": """lang tokenizer split pipeline pipeline_hash text_field id_field
        tokens_field window""",
    "computing": "precision device threads batch_tokens block_tokens exact kernels",
}
TEXT = "--kind --lang -l --tokenizer"
COMMANDS = {
    "init-config": """--pipeline -p --lang -l --weights --frozen --finetune --at
        --static --words --layer-cache --force -F""",
    "models": "--json",
    "info": "--json --config --kernels",
    "convert": "--format --precision --force -F",
    "prepare": f"""--output -o {TEXT} --sentences --no-sentences --vocab-size
        --min-count --max-tokens --n-process -n --force -F --silent -S""",
    "pretrain": "--output -o --force -F --gpu-id -g",
    "perplexity": f"""{TEXT} --sentences --no-sentences --max-tokens --gpu-id -g
        --silent -S --json""",
    "curve": "--output -o",
    "benchmark": f"{TEXT} --threads --max-tokens --rounds --gpu-id -g --json",
    "embed run": f"""--output -o {TEXT} --sentences --no-sentences --pipeline
        --text-field --id-field --tokens-field --window --layers --mix-of
        --save-precision --pool --shard-mb --limit-mb --precision --threads
        --batch-tokens --gpu-id -g --n-process -n --share --ray""",
    "embed plan": "--output -o",
    "embed status": "--json",
    "embed export": "--format --force -F",
    "embed verify": "--sample --full --seed --gpu-id -g",
    "embed repair": "--sample --full --seed --gpu-id -g --n-process -n",
    "explore word": f"""--word --output -o --format --context --n-contexts --n-nearest
        --max-contexts --layer --label {TEXT} --gpu-id -g --json""",
    "explore sentence": "--output -o --lang -l --tokenizer --gpu-id -g",
    "explore mix": "--output -o --format --json",
}
# Command lines of version 0.2, and what they are called now.
OLD = {
    "mix PIPE -o a.png": "explore mix --format plot PIPE -o a.png",
    "neighbours M T --word W --n 9": (
        "explore word --format table M T --word W --n-nearest 9"
    ),
    "convert M OUT --to bilm-tf --half": (
        "convert M OUT --format bilm-tf --precision float16"
    ),
    "convert M OUT --no-half": "convert M OUT --precision float32",
    "prepare T -o OUT --overwrite --processes 2": (
        "prepare T -o OUT --force --n-process 2"
    ),
    "pretrain C -o OUT --overwrite --training.epochs 2": (
        "pretrain C -o OUT --force --training.epochs 2"
    ),
    "init-config OUT --elmo=output": "init-config OUT --at=output",
    "embed run M T -o OUT --dtype int8 --limit 2 --processes 2 --shards 1/2": (
        "embed run M T -o OUT --save-precision int8 --limit-mb 2 --n-process 2 "
        "--share 1/2"
    ),
    "embed repair OUT --processes=2": "embed repair OUT --n-process=2",
}
GONE = {
    "benchmark inference --model small": "spacy elmo benchmark MODEL TEXT",
    "benchmark precision PIPE CORPUS": "benchmarks.precision",
    "embed run M T -o OUT --dimensions 8": "PCA",
    "embed run M T -o OUT --format parquet": "embed export",
}
# Names of kernels: in SPACY_ELMO_KERNELS, in plans, and in checkpoints
# ("training_matmul").
STORED_KERNELS = {
    "token_encoder": "native_tokens char_cnn definition",
    "lstm": "native_lstm cudnn_lstm gpu_lstm torch_lstm autograd_lstm definition",
    "instructions": "avx512_bf16 avx512 avx2 neon none",
    "training_matmul": "onednn torch",
    "gradients": "overlapped afterwards",
}


def arguments(function):
    return set(inspect.signature(function).parameters)


@pytest.mark.parametrize("group", ENTRY_POINTS)
def test_entry_points(group):
    found = distribution("spacy-elmo").entry_points.select(group=group)
    assert set(ENTRY_POINTS[group].split()) <= {each.name for each in found}
    for each in found:
        assert callable(each.load())


@pytest.mark.parametrize("group", REGISTERED)
def test_registered_names(group):
    ours = {
        name
        for name, made in getattr(registry, group).get_all().items()
        if inspect.getmodule(inspect.unwrap(made)).__name__.startswith("spacy_elmo.")
    }
    assert set(REGISTERED[group].split()) == ours


@pytest.mark.parametrize(("group", "name"), SETTINGS)
def test_settings_of_what_is_registered(group, name):
    ours = registry if hasattr(registry, group) else spacy_registry
    function = getattr(ours, group).get(f"spacy-elmo.{name}.v1")
    assert set(SETTINGS[group, name].split()) == arguments(function)


def test_settings_of_the_component():
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo")
    found = nlp.config["components"]["elmo"]
    assert set(COMPONENT.split()) <= set(found)
    assert set(SETTINGS["architectures", "BiLM"].split()) <= set(found["model"])
    elmo = nlp.get_pipe("elmo")
    assert {"weights", "layer_cache", "layer_cache_mb"} <= arguments(elmo.initialize)


@pytest.mark.parametrize("block", PRETRAIN)
def test_settings_of_pretraining(block):
    assert set(PRETRAIN[block].split()) <= set(block.model_fields)
    assert set(config.BLOCKS) >= {"objective", "optimizer", "schedule", "logger"}


def test_sizes():
    assert set(SIZES.split()) <= set(BiLMConfig.model_fields)


def test_settings_of_embed():
    fields = {field.name: field for field in dataclasses.fields(embed.Options)}
    assert set(EMBED["Options"].split()) <= set(fields)
    options = embed.Options()
    for name in ("reading", "computing"):
        found = dataclasses.asdict(getattr(options, name))
        assert set(EMBED[name].split()) <= set(found)


@pytest.mark.parametrize("command", COMMANDS)
def test_commands(command):
    found = get_command(app)
    for name in command.split():
        found = found.commands[name]
    options = {o for each in found.params for o in (*each.opts, *each.secondary_opts)}
    assert set(COMMANDS[command].split()) <= options


def values(line):
    """Return the command that a line names, and its values, without running it."""
    command, context = parse(app, line.split())
    return command.name, context.params, context.args


@pytest.fixture
def models(tmp_path, monkeypatch):
    """A folder with all that the lines name."""
    monkeypatch.chdir(tmp_path)
    for name in "MTC":
        (tmp_path / name).mkdir()


@pytest.mark.parametrize("old", OLD)
def test_commands_of_0_2_say_the_new_name(old, capsys, models):
    found = values(old)
    said = capsys.readouterr().err
    assert found == values(OLD[old])
    assert capsys.readouterr().err == ""
    words = [word.partition("=")[0] for word in old.split()]
    gone = {word for word in words if word in OPTIONS}
    gone |= set(COMMANDS_OF_0_2).intersection(words[:1])
    assert gone and said.count("ELW70") == len(gone)
    assert all(f"[ELW70] '{name}' is called '" in said for name in gone)


@pytest.mark.parametrize("gone", GONE)
def test_what_is_gone_says_what_to_do(gone):
    result = CliRunner().invoke(app, gone.split())
    said = " ".join(result.output.replace("│", "").split())
    assert result.exit_code == 2 and "EL240" in said and GONE[gone] in said


def test_files_and_their_formats():
    files = {"config.json", "weights.safetensors", "vocab.txt", "alphabet.json"}
    assert {*files, "card.json", "softmax.safetensors"} <= set(own.FILES)
    assert own.FORMAT_VERSION == 1
    assert (shards.MANIFEST, shards.FORMAT_VERSION) == ("manifest.json", 1)
    assert (plan.PLAN, plan.FORMAT_VERSION) == ("plan.json", 3)
    assert checkpoint.FILE == "checkpoint.safetensors"
    assert loggers.FILE == "log.jsonl"


@pytest.mark.parametrize("part", STORED_KERNELS)
def test_names_of_kernels(part):
    assert set(STORED_KERNELS[part].split()) == set(KERNELS[part])


def test_a_component_is_saved_under_the_same_keys(tmp_path):
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo").load_weights("en_elmo_sm")
    nlp.to_disk(tmp_path)
    meta = json.loads((tmp_path / "meta.json").read_text(encoding="utf-8"))
    assert meta["elmo"]["elmo"]["weights"] == "en_elmo_sm"
    assert (tmp_path / "elmo" / "model").exists()
