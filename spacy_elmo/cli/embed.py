"""spacy elmo embed: vectors of whole corpora, in files."""

import shutil
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from tqdm import tqdm

from ..errors import Errors
from ..output import msg, write_json
from . import options
from .group import app
from .renamed import Group

if TYPE_CHECKING:
    from ..embed import Plan, Report

embed = typer.Typer(
    name="embed",
    cls=Group,
    help="Write the vectors of whole corpora, each token once, and verify them.",
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
)
app.add_typer(embed)

FOLDER = typer.Argument(..., help="Folder of the vectors")
FULL = typer.Option(False, "--full", help="Compute all vectors again")
SAMPLE = typer.Option(0.001, help="Share of vectors to compute again")
SEED = typer.Option(0, help="Seed of the sample")


@embed.command(
    "run", help="Write vectors. The same command again writes the missing ones."
)
@embed.command(
    "plan", help="Write the plan, and show the time and space that it needs."
)
def run_cli(
    ctx: typer.Context,
    model: str | None = typer.Argument(
        None, help="Shipped model, folder of weights, or pipeline"
    ),
    inputs: list[str] | None = typer.Argument(
        None, help=f"{options.TEXT}, '-' for standard input"
    ),
    output: Path = typer.Option(..., "--output", "-o", help="Folder of the vectors"),
    lang: options.Lang = "en",
    tokenizer: options.Tokenizer = "spacy",
    sentences: options.Sentences = True,
    pipeline: str | None = typer.Option(
        None, help="Pipeline that sets tokens and sentences instead"
    ),
    kind: options.Kind = None,
    one_per_file: bool = typer.Option(
        False, "--one-per-file", help="A file of text is one document"
    ),
    text_field: str = typer.Option("text", help="Field of .jsonl with the text"),
    id_field: str = typer.Option("id", help="Field of .jsonl with the id"),
    tokens_field: str = typer.Option(
        "tokens", help="Field of .jsonl with tokens, if any"
    ),
    window: int = typer.Option(
        250, help="Most tokens that the biLM reads in one piece"
    ),
    layers: str = typer.Option(
        "average", help="mix, average, top, all, or numbers: 0,2"
    ),
    mix_of: str | None = typer.Option(
        None, help="Component of the pipeline whose mix is used"
    ),
    save_precision: str = typer.Option(
        "float32", help="Precision of files: float32, float16, int8"
    ),
    pool: str = typer.Option(
        "token", help="A vector for each token, or a mean: sentence, doc"
    ),
    shard_mb: float = typer.Option(4.0, help="Text for each shard, in MB"),
    limit_mb: float | None = typer.Option(
        None, help="Most MB that are read of each input"
    ),
    precision: str = typer.Option(
        "float32", help="Precision of computing: float32 or half"
    ),
    threads: int = typer.Option(1, help="Threads of each process"),
    batch_tokens: int = typer.Option(2048, help="Most tokens of a batch"),
    gpu_id: options.GpuId = -1,
    n_process: options.NProcess = 1,
    share: str = typer.Option("1/1", help="Part of the work: 3/64 is the third of 64"),
    ray: str | None = typer.Option(
        None,
        metavar="[ADDRESS]",
        help="Ray cluster, or 'local'. Without an address Ray looks for one, or starts "
        "one",
    ),
) -> None:
    """Make a plan, or read the plan that is there, and carry it out as 'run'."""
    from ..embed import Computing, Options, Reading, make_plan, read_plan

    gpu = max(0, gpu_id)
    if model is None:
        _refuse_changes(ctx, output)
        plan, encoder = read_plan(output), None
    else:
        device = "cpu" if gpu_id < 0 else "cuda"
        fields = (text_field, id_field, tokens_field)
        settings = Options(
            Reading(lang, tokenizer, sentences, pipeline, None, *fields, window),
            Computing(precision, device, threads, batch_tokens),
            mix_of=mix_of,
            kind=kind,
            layers=layers,
            dtype=save_precision,
            pool=pool,
            shard_mb=shard_mb,
            limit_mb=limit_mb,
            one_per_file=one_per_file,
        )
        plan, encoder = make_plan(model, inputs or [], output, settings, gpu_id=gpu)
    _show_plan(plan, output, n_process)
    if ctx.info_name == "run":
        part, _, parts = share.partition("/")
        if not (part.isdecimal() and parts.isdecimal()):
            raise Errors.EL207(name="share", found=share, known="1/64 to 64/64")
        of_run = {"share": (int(part), int(parts)), "gpu_id": gpu, "ray": ray}
        _run(output, encoder=encoder, processes=n_process, **of_run)


def _refuse_changes(ctx: typer.Context, output: Path) -> None:
    """Raise ValueError [EL222] if options are given that a plan has fixed."""
    of_runs = {"output", "gpu_id", "n_process", "share", "ray"}
    given = [
        parameter.opts[0]
        for parameter in ctx.command.params
        if parameter.name not in of_runs
        and (source := ctx.get_parameter_source(parameter.name or ""))
        and source.name == "COMMANDLINE"
        and ctx.params[parameter.name] != ()  # which Click 8.1 gives to no inputs
    ]
    if given:
        raise Errors.EL222(path=output, options=", ".join(given))


def _run(output: Path, **how: Any) -> None:
    """Carry out a plan, with the arguments of `spacy_elmo.embed.run`, and say what was
    done."""
    from ..embed import Terminated, run

    try:
        found = run(output, progress=True, **how)
    except Terminated:
        msg.warn("Stopped. Finished shards are whole; run it again for the others.")
        sys.exit(143)
    if found.tokens:
        msg.good(f"{found.tokens:,} tokens in {output}")
    elif not found.aside:
        msg.good(f"There is nothing left to do in {output}")
    if found.aside:
        msg.fail(f"Jobs that ended their process three times: {found.aside}", exits=1)


def _show_plan(plan: "Plan", output: Path, n_process: int) -> None:
    from ..embed import readable
    from ..files import named_path

    known, n = plan.estimate, max(1, min(n_process, plan.n_jobs))
    seconds = known["tokens"] / max(1, known["tokens_per_second"]) / n
    rows = {
        "plan": plan.hash,
        "model": f"{plan.model} ({plan.fingerprint[:12]})",
        "inputs": f"{len(plan.inputs):,} ({readable(known['input_bytes'])})",
        "jobs": f"{plan.n_jobs:,}",
        "tokens": f"about {known['tokens']:,}",
        "row": f"{plan.kept.row_shape} {plan.kept.dtype} for each {plan.kept.pool}",
        "on disk": f"about {readable(known['bytes'])}; "
        f"{readable(shutil.disk_usage(named_path(output)).free)} are free",
        "time": f"about {tqdm.format_interval(seconds)} with {n} processes of "
        f"{known['tokens_per_second']:,} tokens/s",
    }
    msg.table(rows)


@embed.command("status")
def status_cli(output: Path = FOLDER, as_json: options.AsJson = False) -> None:
    """Show what is done, the speed, and the errors of rounding."""
    from ..embed import Progress, read_plan, rounding_error

    plan = read_plan(output)
    state, error = Progress(plan, output).look(), rounding_error(plan, output)
    if as_json:
        write_json({**asdict(state), "all_jobs": plan.n_jobs, **error})
        return
    rows = {
        "jobs done": f"{state.jobs:,} of {plan.n_jobs:,}",
        "processes at work": f"{state.workers:,}",
        "rounding (RMS, relative)": f"{error['relative_error']:.2e}",
        "rounding (largest)": f"{error['largest_error']:.2e}",
    }
    if state.seconds_left is not None:
        rows["tokens/s"] = f"{state.tokens_per_second:,.0f}"
        rows["time left"] = f"about {tqdm.format_interval(state.seconds_left)}"
    msg.table(rows)


@embed.command("export")
def export_cli(
    output: Path = FOLDER,
    target: Path = typer.Argument(..., help="Folder, or one file ending in .hdf5"),
    sink: str = typer.Option("parquet", "--format", help="parquet, hdf5 or another"),
    force: options.Force = False,
) -> None:
    """Write finished vectors in another format. HDF5 has AllenNLP's layout."""
    from ..embed import export

    n_shards = export(output, target, sink, force=force)
    msg.good(f"Wrote {n_shards:,} shards to {target}")


@embed.command("verify")
def verify_cli(
    output: Path = FOLDER,
    sample: float = SAMPLE,
    full: bool = FULL,
    seed: int = SEED,
    gpu_id: options.GpuId = -1,
) -> None:
    """Check that each token is there once with the right vector. Exit with 1 if not."""
    report = _verify(output, sample, full, seed, gpu_id)
    if report.problems:
        msg.fail(f"{len(report.problems)} problems", exits=1)
    counts = ", ".join(f"{n:,} {what}" for what, n in report.counts.items())
    msg.good(
        f"{report.shards:,} shards with {counts}; {report.recomputed:,} recomputed"
    )


@embed.command("repair")
def repair_cli(
    output: Path = FOLDER,
    sample: float = SAMPLE,
    full: bool = FULL,
    seed: int = SEED,
    gpu_id: options.GpuId = -1,
    n_process: options.NProcess = 1,
) -> None:
    """Verify, and write the shards with a problem again."""
    from ..embed import repair

    removed = repair(output, _verify(output, sample, full, seed, gpu_id))
    msg.info(f"Removed {removed} shards")
    _run(output, processes=n_process, gpu_id=max(0, gpu_id))


def _verify(
    output: Path, sample: float, full: bool, seed: int, gpu_id: int
) -> "Report":
    from ..embed import verify

    report = verify(output, sample=sample, full=full, seed=seed, gpu_id=max(0, gpu_id))
    for problem in report.problems:
        msg.warn(f"{problem.shard}: {problem.problem}")
    return report
