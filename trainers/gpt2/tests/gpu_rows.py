"""Rows of tests/gpu/run for the trainers, whose names Row and sanitized it defines here."""

# pylint: disable=undefined-variable
import pathlib

HERE = pathlib.Path(__file__).resolve().parent


def lines_of(program, *arguments):
    """Runs a program of this folder, or of the programs' folder, which prints the figures."""

    def run(runner):
        path = HERE / program
        command = (path, runner.bin) if path.exists() else (runner.bin / program,)
        output = runner.output_of(*command, *arguments)
        return "; ".join(line for line in output.splitlines() if not line.startswith("$ "))

    return run


def rows():
    yield Row("compute", "compute", 120, lines_of("compute_check"), ("compute_check",))
    yield Row("trainer", "trainers", 150, lines_of("trainer_runs"), ("trainer",))
    yield Row(
        "gpt2", "trainers", 150, lines_of("gpt2_runs"), ("gpt2",), "collectives (it has one rank)"
    )
    yield Row(
        "gpt2-ranks",
        "trainers",
        150,
        lines_of("gpt2_ranks"),
        ("gpt2",),
        "NVLink, NVLS, InfiniBand (ranks that share a GPU use sockets)",
    )
    for tool in "memcheck", "racecheck":
        yield Row(
            f"{tool}-compute",
            "sanitizers",
            180,
            sanitized(tool, 0, "compute_check"),
            ("compute_check",),
        )
