"""The command line. Flags of attacks are made from their fields; nobody writes them by hand."""

from __future__ import annotations

import csv
import inspect
import io
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import App, CycloptsError, Parameter

from divulge import __version__
from divulge.errors import BadInput

if TYPE_CHECKING:
    from divulge.auditing import Audit
    from divulge.contract import Access, Procedure

DONE, LEAK, BAD_INPUT, BUG, INTERRUPTED = 0, 1, 2, 3, 130
Several = Annotated[tuple[str, ...], Parameter(show_default=False)]
"What may be given several times, a value each."

app = App(
    name="divulge",
    version=__version__,
    help="What does a machine-learning model give away? Audit your own.",
    default_parameter=Parameter(negative=()),
    suppress_keyboard_interrupt=False,
)
attack_app = App(name="attack", help="Run one attack; its flags are its options.")
study_app = App(name="study", help="Run one study or published baseline; its flags are its options.")
risk_app = App(name="risk", help="Place a training on the map of risk; its flags are how a network was trained.")
app.command(attack_app)
app.command(study_app)
app.command(risk_app)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Output:
    """Flags that every command which runs attacks shares."""

    json: bool = False
    "Print the findings as JSON, and nothing else."
    fail_on_leak: bool = False
    "Exit with code 1 when a leak was found: --fail-on 'leaks>=1'."
    fail_on: Several = ()
    """Exit with code 1 when a condition holds, as 'training_data>=1' does where a leak is of training data. Counted are
    leaks, those of an asset, those of a severity or worse (high>=1 counts critical ones), failed, none_found,
    not_applicable and incomplete; signs are >=, > and ==. Several with commas between them, or the flag again."""
    format: Several = ()
    "Write files for other programs into the run folder: sarif, junit, or sarif,junit."
    mlflow: str | None = None
    "Log the audit to this experiment of MLflow, on the server that MLFLOW_TRACKING_URI names."

    @property
    def conditions(self) -> tuple[str, ...]:
        return (*self.fail_on, *["leaks>=1"] * self.fail_on_leak)

    def checked(self) -> Output:
        """The same flags, or one sentence on what is wrong with them, before anything runs."""
        from divulge import mlflow_log
        from divulge.report import formats, thresholds

        formats.read(self.format)
        thresholds.read(self.fail_on)
        if self.mlflow is not None:
            mlflow_log.check(self.mlflow)
        return self


@app.command
def demo(
    *,
    out: Path = Path("runs/demo"),
    seed: int = 0,
    server: Literal["own", "mlserver"] = "own",
    defend: list[str] | None = None,
    output: Output | None = None,
) -> int:
    """Audit models trained on embedded data, and write a report.

    Parameters
    ----------
    out
        The run folder.
    seed
        Another seed trains other models.
    server
        Who serves the model that is asked over HTTP: a small server of divulge's own, or MLServer where it is installed.
    defend
        Attack again behind a defence, as `divulge audit --defend` does.
    """
    from divulge import demo as demonstration, terminal

    output = (output or Output()).checked()
    with terminal.watching(quiet=output.json) as observer:
        audit = demonstration.run(out, seed, observer, server, defend or ())
    return _concluded(audit, output)


@app.command(name="audit")
def audit_command(
    *sources: str,
    plan: bool = False,
    out: Path | None = None,
    seed: int | None = None,
    workers: int | None = None,
    allow_pickle: bool = False,
    defend: list[str] | None = None,
    output: Output | None = None,
) -> int:
    """Audit what an AUDIT.toml file describes, or a model in files or at an address; run again, it goes on where it stopped.

    Parameters
    ----------
    sources
        The audit file, whose form docs/audit-file.md shows; or what `divulge init` takes, which is then run first.
    plan
        Print what would run, and run nothing.
    out
        The run folder, instead of the file's.
    seed
        The seed, instead of the file's.
    workers
        Processes to use, instead of the file's; all cores by default.
    allow_pickle
        Open pickle and joblib files, which can run any code they like.
    defend
        Run the audit again behind a defence, instead of the file's: rounding=3, rounding=decimals:3,of:values, noise=0.1,
        label-only, query-limit=50; once for each time that it is given. docs/defences.md lists them.
    """
    from divulge import audit_file, auditing, terminal

    output = (output or Output()).checked()
    file, looked = _audit_file(sources, allow_pickle, quiet=output.json)
    described = audit_file.read(file, allow_pickle=allow_pickle)
    tried = described.defend if defend is None else defend
    if plan:
        steps = auditing.plan(described.held, described.attacks, described.studies, described.options)
        terminal.show_plan(steps, as_json=output.json, again=auditing.plan_again(described.held, steps, tried))
        return DONE
    with terminal.watching(quiet=output.json) as observer:
        audit = auditing.audit(
            described.held,
            described.truth,
            out=out or described.out,
            title=described.title,
            attacks=described.attacks,
            studies=described.studies,
            options=described.options,
            seed=described.seed if seed is None else seed,
            budget=described.budget,
            workers=described.workers if workers is None else workers,
            sources=described.sources,
            observer=observer,
            looked=looked,
            defend=tried,
        )
    asked = replace(output, format=(*described.format, *output.format), fail_on=(*described.fail_on, *output.fail_on))
    return _concluded(audit, asked)


@app.command
def init(
    *sources: str,
    out: Path = Path("AUDIT.toml"),
    force: bool = False,
    allow_pickle: bool = False,
    json: bool = False,
) -> int:
    """Look at files or at an address, say what they are, and write an audit file that runs.

    Parameters
    ----------
    sources
        Files of a model and its data, or the address of a running model; after '#', what is known of it as in an audit file:
        http://host/score#protocol=mlflow&dimension=784.
    out
        The audit file to write.
    force
        Replace it if it is there already.
    allow_pickle
        Open pickle and joblib files, which can run any code they like.
    json
        Print what was found as JSON, and nothing else.
    """
    from divulge import first_look, terminal

    written = first_look.write(sources, out, force=force, allow_pickle=allow_pickle)
    terminal.show_first_look(written, as_json=json)
    return DONE


@app.command
def attacks(*, json: bool = False) -> int:
    """List the attacks: what each needs, what it yields, its paper.

    Parameters
    ----------
    json
        Print JSON, and nothing else.
    """
    from divulge import registry, terminal

    terminal.show_attacks(registry.attacks(), registry.broken(), as_json=json)
    return DONE


@app.command
def studies(*, json: bool = False) -> int:
    """List what is no attack: re-tests of remedies, papers' figures, published baselines.

    Parameters
    ----------
    json
        Print JSON, and nothing else.
    """
    from divulge import registry, terminal

    terminal.show_studies(registry.others(), as_json=json)
    return DONE


@app.command
def reproduce(
    name: str | None = None,
    /,
    *,
    all: bool = False,
    scale: Literal["quick", "paper"] = "quick",
    seed: int = 0,
    out: Path = Path("runs/reproduce"),
    workers: int | None = None,
    json: bool = False,
) -> int:
    """Reproduce a paper's claim: published, ours, verdict.

    Parameters
    ----------
    name
        The experiment; without one, they are listed.
    all
        Run every experiment.
    scale
        quick takes seconds; paper is the size the paper reports.
    seed
        Another seed draws other victims.
    out
        Where finished cells are kept and the table is written as CSV.
    workers
        Processes to use; all cores by default.
    json
        Print the table as JSON, and nothing else.
    """
    from divulge import experiments, storage, terminal

    if name is None and not all:
        terminal.show_experiments([experiments.read(known, scale) for known in experiments.names()], as_json=json)
        return DONE
    outcomes = []
    for chosen in experiments.names() if name is None else [name]:
        experiment = experiments.read(chosen, scale)
        with terminal.watching(quiet=json or not terminal.out.is_terminal) as observer:
            outcomes.append(experiments.run(experiment, seed=seed, out=out, workers=workers, observer=observer))
        storage.write(out / f"{chosen}.csv", _table([outcomes[-1]]).encode())
    if len(outcomes) > 1:
        storage.write(out / "all.csv", _table(outcomes).encode())
    terminal.show_outcomes(outcomes, as_json=json)
    if not json:
        terminal.out.print(f"cells: {out}/*.csv", markup=False)
    return DONE


@app.command
def report(run: Path | None = None, /, *, format: Several = (), schema: bool = False) -> int:
    """Draw the report of a run folder again, without running anything.

    Parameters
    ----------
    run
        The folder an audit wrote.
    format
        Write files for other programs besides: sarif, junit, or sarif,junit.
    schema
        Print the JSON schema of report.json instead, and nothing else.
    """
    from divulge import auditing, terminal
    from divulge.report import formats

    if schema:
        terminal.say_schema()
        return DONE
    if run is None:
        raise BadInput("expected a run folder, got none; write `divulge report RUN`")
    wanted = formats.read(format)
    terminal.out.print(f"report: {auditing.draw(run)}", markup=False)
    terminal.show_files(auditing.write(run, auditing.reopen(run), wanted))
    terminal.say_seal(auditing.seal_of(run))
    return DONE


@app.command
def verify(
    run: Path,
    /,
    *,
    seal: str | None = None,
    against: Path | None = None,
    redraw: bool = False,
    allow_pickle: bool = False,
    json: bool = False,
) -> int:
    """Say whether anything in a run folder was changed since its audit ended; exit with code 1 where something was.

    Parameters
    ----------
    run
        The folder an audit wrote.
    seal
        The seal that the audit printed, from where it was written down; without it, whoever changed the folder may have
        made another.
    against
        The audit file: are the files that it holds still those that were audited? Addresses are not asked.
    redraw
        Draw the page again and compare it.
    allow_pickle
        Open pickle and joblib files, which can run any code they like.
    json
        Print what was checked as JSON, and nothing else.
    """
    from divulge import audit_file, terminal, verifying

    now = None if against is None else audit_file.fingerprints(against, allow_pickle=allow_pickle)
    done = verifying.verify(run, given=seal, redraw=redraw, now=now)
    terminal.show_verification(done, as_json=json)
    return DONE if done.unchanged else LEAK


def main(tokens: Sequence[str] | None = None) -> int:
    """Run a command; every expected mistake ends with one sentence and exit code 2."""
    tokens = sys.argv[1:] if tokens is None else tokens
    # Threads that wait should sleep: those of torch spin by default, which took up to eight times as long on a busy machine.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    try:
        if tokens[:1] in (["attack"], ["study"]):
            _add_commands(attack_app if tokens[0] == "attack" else study_app, tokens[1:2])  # only now: it imports attacks
        if tokens[:1] == ["risk"] and risk_app.default_command is None:
            risk_app.default(_risk_command())  # only now: it imports NumPy
        code = app(tokens, exit_on_error=False, print_error=False, result_action="return_value")
        sys.stdout.flush()
        return code if isinstance(code, int) else DONE
    except CycloptsError as error:
        return _refused(_mistake(error))
    except BadInput as error:
        return _refused(str(error))
    except KeyboardInterrupt:
        sys.stderr.write("stopped; what is finished is kept: run the same command again to go on\n")
        return INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nobody reads on: the rest may go nowhere
        return DONE
    except OSError as error:
        return _refused(f"cannot write the output: {error.strerror or error}; free space or send it elsewhere")
    except Exception as error:  # never a traceback, and never the code that means a leak
        if os.environ.get("DIVULGE_DEBUG"):
            raise
        sys.stderr.write(f"error: {type(error).__name__}: {error}; this is a bug: set DIVULGE_DEBUG=1 to see where\n")
        return BUG


def _audit_file(sources: Sequence[str], allow_pickle: bool, *, quiet: bool) -> tuple[Path, tuple[int, int]]:
    """The audit file that is named, or the one for what is named: written now, or by an earlier run of the same command.

    Beside it, the rows and requests that it took to write it.
    """
    from divulge import first_look, terminal

    if sources and all(source.endswith(".toml") for source in sources):
        if len(sources) > 1:
            raise BadInput(f"expected one audit file, got {len(sources)}; run one audit after the other")
        return Path(sources[0]), (0, 0)
    path = first_look.named_after(sources)
    if path.exists():
        terminal.errors.print(f"going on with {path}, which an earlier run wrote", markup=False)
        return path, (0, 0)
    written = first_look.write(sources, path, allow_pickle=allow_pickle)
    if not quiet:
        terminal.show_first_look(written, as_json=False)
    return path, written.sent


def _refused(sentence: str) -> int:
    sys.stderr.write(f"error: {sentence}\n")
    return BAD_INPUT


def _mistake(error: CycloptsError) -> str:
    """What is wrong with the flags, in one sentence."""
    if type(error.__cause__).__name__ == "ValidationError":
        from divulge.contract.options import invalid_option

        return invalid_option(error.__cause__)  # type: ignore[arg-type]  # named so that pydantic need not be imported
    return " ".join(str(error).split())


def _add_commands(group: App, named: Sequence[str]) -> None:
    """The one that is named, or all that belong to the group, to be listed."""
    from divulge import registry
    from divulge.contract import Attack

    if named and named[0] in registry.names():
        found = {named[0]: registry.procedure(named[0])}
        if issubclass(found[named[0]], Attack) is not (group is attack_app):
            what, right = ("an attack", "attack") if group is study_app else ("a study or baseline", "study")
            raise BadInput(f"{named[0]} is {what}; run divulge {right} {named[0]}")
    else:
        found = {**registry.attacks()} if group is attack_app else registry.others()
    for name, procedure in found.items():
        if name not in group:
            group.command(_command(name, procedure), name=name)


def _risk_command() -> Callable[..., int]:
    """A command whose flags are the fields of a recipe."""
    from divulge import terminal
    from divulge.training_risk.placing import risk
    from divulge.training_risk.recipe import Recipe

    def command(*, recipe: Any = None, json: bool = False) -> int:
        terminal.show_risk(risk(recipe or Recipe()), as_json=json)
        return DONE

    command.__doc__ = (
        "Say how many of its training images a network would give back, by how it was trained, how sure that is, and what "
        "would lower it.\n\nThe map was measured on dense ReLU networks; nothing is trained now."
    )
    only = Parameter(help="Print JSON, and nothing else.")
    recipe = Annotated[Recipe | None, Parameter(name="*", group="How it was trained")]
    command.__annotations__ = {"recipe": recipe, "json": Annotated[bool, only], "return": int}
    return command


def _given_as(need: Any) -> str:
    """The kind of file that holds what an attack needs; directions are in the weights they are of."""
    return "weights" if need.kind == "directions" else str(need.kind)


def _command(name: str, attack: type[Procedure[Any, Any]]) -> Callable[..., int]:
    """A command whose flags are the attack's options, a file for each thing it needs, and what all commands share."""
    from divulge.contract import Attack

    needs, scored_by, edge = [_given_as(need) for need in attack.needs], attack.scored_by, issubclass(attack, Attack)

    def command(**flags: Any) -> int:
        from divulge import auditing, terminal

        given = {key: default for key, (_, default) in parameters.items()} | flags
        output = (given["output"] or Output()).checked()
        held = {kind: _opened(kind, given[kind], given["allow_pickle"]) for kind in needs}
        truth = {}
        if scored_by and given["truth"]:
            truth[scored_by.kind] = _opened(scored_by.kind, given["truth"], given["allow_pickle"])
        with terminal.watching(quiet=output.json) as observer:
            audit = auditing.audit(
                held,
                truth,
                out=given["out"] or Path("runs") / name,
                title=f"{name} on {given[needs[0]]}",
                attacks=[name] if edge else [],
                studies=[] if edge else [name],
                options={name: (given["options"] or attack()).options()},
                seed=given["seed"],
                sources={kind: given[kind] for kind in needs},
                observer=observer,
            )
        return _concluded(audit, output)

    kind_help = "FILE, or FILE#option=value&option=value as in an audit file"
    true_help = f"The true {scored_by.kind}, to score against: {kind_help}." if scored_by else ""
    parameters = {
        **{kind: (Annotated[str, Parameter(help=f"The {kind.replace('_', ' ')}: {kind_help}.")], ...) for kind in needs},
        "options": (Annotated[attack | None, Parameter(name="*", group="Options")], None),
        **({"truth": (Annotated[str | None, Parameter(help=true_help)], None)} if scored_by else {}),
        "out": (Annotated[Path | None, Parameter(help=f"The run folder; runs/{name} by default.")], None),
        "seed": (Annotated[int, Parameter(help="Same seed, same finding.")], 0),
        "allow_pickle": (Annotated[bool, Parameter(help="Open pickle and joblib files, which can run any code.")], False),
        "output": (Output | None, None),
    }
    command.__doc__ = f"{(attack.__doc__ or name).strip()}\n\n{attack.paper}"
    command.__annotations__ = {key: kind for key, (kind, _) in parameters.items()} | {"return": int}
    command.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # what cyclopts reads
        [
            inspect.Parameter(
                key,
                inspect.Parameter.KEYWORD_ONLY,
                annotation=kind,
                default=inspect.Parameter.empty if default is ... else default,
            )
            for key, (kind, default) in parameters.items()
        ]
    )
    return command


def _opened(kind: str, source: str, allow_pickle: bool) -> Access:
    from divulge.audit_file import open_source

    return open_source(kind, source, allow_pickle=allow_pickle)


def _concluded(audit: Audit, output: Output) -> int:
    """The last lines, files for other programs, and the exit code: a condition that holds goes before a log that failed."""
    from divulge import auditing, mlflow_log, terminal
    from divulge.report import thresholds

    files = auditing.write(audit.folder, audit.record, output.format) if audit.folder is not None else {}
    terminal.conclude(audit, files, as_json=output.json)
    code = DONE
    if output.mlflow is not None:
        try:
            logged = mlflow_log.log(audit.record, audit.folder, output.mlflow)
        except BadInput as error:
            code = _refused(str(error))
        else:
            terminal.errors.print(f"mlflow: {logged}", markup=False)
    for sentence in thresholds.exceeded(audit.record, output.conditions):
        sys.stderr.write(f"{sentence}\n")
        code = LEAK
    return code


def _table(outcomes: Sequence[Any]) -> str:
    """Every cell of the experiments: what was varied, the verdict, the figure and its null."""
    buffer = io.StringIO()
    places = list(dict.fromkeys(place for outcome in outcomes for place in outcome.experiment.vary))
    writer = csv.writer(buffer)
    writer.writerow(["experiment", *places, "verdict", "score", "value", "null"])
    for outcome in outcomes:
        for cell in outcome.cells:
            varied = [cell.settings.get(place, "") for place in places]
            measured = [cell.finding.verdict.value, outcome.experiment.score, cell.value, cell.null]
            writer.writerow([outcome.experiment.name, *varied, *measured])
    return buffer.getvalue()


if __name__ == "__main__":
    sys.exit(main())
