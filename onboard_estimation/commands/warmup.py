"""`onboard-estimation warmup`."""

from __future__ import annotations

from onboard_estimation.commands import completion, output

EXAMPLES = output.examples("warmup", "warmup salp")


def warmup(
    names: completion.RobotsArgument = None,
    json: output.JsonOption = False,
) -> None:
    """Compile all kernels of the robots, so that nodes start in a second. To be run once after each installation.

    The machine code is kept in a folder of yours that is named by the sources: a changed source compiles anew. Set
    `ONBOARD_ESTIMATION_CACHE_DIR` to choose another folder.
    """
    from dataclasses import asdict

    from onboard_estimation.live.warmup import warm_up

    with output.steps("warming up", quiet=json) as progress:
        warmth = warm_up(names or [], progress)
    if json:
        output.print_json({**asdict(warmth), "folder": str(warmth.folder)})
        return
    robots = ", ".join(warmth.robots) or "no robot"
    if warmth.compiled:
        output.say(f"{robots}: {len(warmth.compiled)} kernels compiled in {warmth.duration_s:.1f} s")
    else:
        output.say(f"{robots}: nothing to do, all kernels are compiled already ({warmth.duration_s:.1f} s to look)")
    output.say(f"kept in {warmth.folder}" if warmth.kept else f"not kept: {warmth.folder} goes with this process")
    for note in warmth.notes:
        output.say(f"- {note}")
