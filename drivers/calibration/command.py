"""`onboard-estimation calibrate`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from drivers.calibration.procedure import Procedure
from onboard_estimation.base.errors import UserError
from onboard_estimation.commands import arguments, output
from onboard_estimation.commands.arguments import argument, option

if TYPE_CHECKING:
    from drivers.calibration.logs import ImuLog, Turn
    from drivers.calibration.parameter_file import ImuCalibration, Noise
    from drivers.calibration.session import Found, Rest

EXAMPLES = output.examples(
    "calibrate imu BAG --topic imu/low_g/data_raw --output imu_low_g.yaml",
    "calibrate imu device.log --format serial_log --sensor imu/high_g --output imu_high_g.yaml",
    "calibrate imu session.csv --rate 102.4 --gyro-unit deg/s --sections sections.json --output imu.yaml",
    "calibrate imu BAG --rest LONG_REST_BAG --output imu.yaml",
)

_FORMAT = "Format of logs that are neither bags nor tables, e.g. `serial_log`; see `convert --formats`."

app = typer.Typer(rich_markup_mode="markdown", help="Calibrate a sensor from a log; writes the file that drivers take.")


@app.callback()
def calibrate() -> None:
    """Calibrate a sensor from a log; writes the file that drivers take."""


@app.command("imu", epilog=EXAMPLES)
@arguments.taking_settings(Procedure(), "procedure")
def imu(
    logs: Annotated[list[Path], argument("LOG...", "Bags, tables (.csv) or, with `--format`, logs of one sensor.")],
    procedure: Procedure,
    form: Annotated[str | None, option("FORMAT", _FORMAT, "--format", autocompletion=arguments.formats)] = None,
    file: Annotated[Path | None, arguments.into("YAML", "Parameter file to write; new.")] = None,
    json: arguments.JsonOption = False,
) -> None:
    """Bias, gain and misalignment of accelerometer and gyro, and their noise, from six positions and three turns.

    Put the sensor down for 5 s with each axis up and each axis down, and turn it once about each axis (Ferraris). Rests
    and turns are found in the log, positions by gravity. Every number comes with its standard deviation; what the log
    does not allow to know is said and not written.
    """
    from drivers.calibration.logs import find_rests, read_sections
    from drivers.calibration.noise import noise_of_rest
    from drivers.calibration.session import calibrate

    if procedure.sections is not None and len(logs) > 1:
        raise UserError(f"--sections is of one log; {len(logs)} are given")
    with output.steps("calibrating", quiet=json) as progress:
        read = []
        for path in logs:
            progress(f"reading {path}")
            read.append(_chosen(path, form, procedure))
        progress("estimating")
        given = None if procedure.sections is None else read_sections(procedure.sections, read[0])
        found = calibrate(read, procedure, given)
        if procedure.rest is not None:
            progress(f"reading {procedure.rest}")
            log = _chosen(procedure.rest, form, procedure)
            noise, seconds, said = noise_of_rest(log, find_rests(log))
        else:
            longest = max(found.rests, key=lambda one: one.section.duration_s)
            noise, seconds, said = noise_of_rest(longest.log, [longest.section])
    result = _with_provenance(read, found, noise, procedure.gravity)
    sentences = [*(note for log in read for note in log.notes), *found.sentences, *said]
    if found.accelerometer.measured == "nothing" and found.gyro.measured == "nothing":
        raise UserError(f"nothing could be calibrated: {'; '.join(found.sentences)}")
    if file is not None:
        from onboard_estimation.base.configuration import to_parameter_file

        output.put(to_parameter_file(result), file)
    if json:
        output.print_json(_mapping(result, found, seconds, sentences))
        return
    _show(result, found, seconds, sentences)
    if file is not None:
        output.say(f"\nwritten: {file}")


def _chosen(path: Path, form: str | None, procedure: Procedure) -> ImuLog:
    """The sensor's log; one without a gyro rests where another of the same file does that has one."""
    from drivers.calibration.logs import read_log

    found, sensor = read_log(path, form, procedure), procedure.sensor
    # The end of a topic is enough: `imu/low_g/data_raw` of `/hopper/imu/low_g/data_raw`.
    names = [name for name in found if sensor is None or f"/{name}".endswith(f"/{sensor.strip('/')}")]
    usable = {name: one for name, one in found.items() if not isinstance(one, UserError)}
    if len(names) != 1:
        count = "no" if sensor and not names else str(len(names))
        which = f"{path} has {count} {sensor}" if sensor else f"{path} holds {len(found)} sensors"
        raise UserError(f"{which}; choose by --sensor: {', '.join(usable)}")
    log = found[names[0]]
    if isinstance(log, UserError):
        raise log
    return log if log.has_gyro else replace(log, reference=next((one for one in usable.values() if one.has_gyro), None))


def _with_provenance(logs: list[ImuLog], found: Found, noise: Noise, gravity: float) -> ImuCalibration:
    from drivers.calibration.parameter_file import ImuCalibration, Provenance
    from onboard_estimation.base.installed import versions

    first, residuals = logs[0], (found.residual_before_m_s2, found.residual_after_m_s2)
    before, after = [() if one is None else (float(f"{one:.4g}"),) for one in residuals]
    programs = versions(["onboard_estimation", "numpy"])
    provenance = Provenance(
        ", ".join(log.name for log in logs),
        first.recorded,
        first.sensor,
        ", ".join(f"{name} {number}" for name, number in programs.items()),
        len(found.positions),
        len([one for one in found.turns if not one.fault]),
        gravity,
        before,
        after,
    )
    return ImuCalibration(found.accelerometer, found.gyro, noise, provenance)


def _mapping(result: ImuCalibration, found: Found, rest_s: float, sentences: list[str]) -> dict[str, Any]:
    """What `--json` prints."""
    import numpy as np

    from onboard_estimation.base.configuration import to_mapping

    def of(one: Rest | Turn, **more: Any) -> dict[str, Any]:
        return {"start_s": one.section.start_s, "end_s": one.section.end_s, **more}

    return {
        **to_mapping(result),
        "positions": {name: of(one, log=one.log.name, mean_m_s2=one.mean[3:]) for name, one in found.positions.items()},
        "turns": [
            of(one, axis=one.axis, turned_deg=np.rad2deg(one.turned_rad), fault=one.fault) for one in found.turns
        ],
        "rests": len(found.rests),
        "noise_from_rest_s": rest_s,
        "not_allowed": sentences,
    }


def _show(result: ImuCalibration, found: Found, rest_s: float, sentences: list[str]) -> None:
    """The table and what it means, for people."""
    import numpy as np

    from onboard_estimation.base.configuration import describe

    table = output.table("", "", "x", "y", "z", "unit", right=("x", "y", "z"))

    def row(name: str, values: Any, stddev: Any, unit: str = "1") -> None:
        shown = [f"{value:.4f} ± {one:.4f}" for value, one in zip(values, stddev, strict=True)]
        table.add_row(name, *shown, unit)

    for name, part, unit, scale in (
        ("accelerometer", result.accelerometer, "m/s^2", 1.0),
        ("gyro", result.gyro, "deg/s", np.rad2deg(1.0)),
    ):
        measured, matrix, matrix_stddev, bias, bias_stddev = vars(part).values()
        if measured != "nothing":
            row(f"{name} bias", scale * np.array(bias), scale * np.array(bias_stddev), unit)
        for axis in range(3) if measured == "bias and matrix" else ():
            rows = slice(3 * axis, 3 * axis + 3)
            row(f"  matrix, {'xyz'[axis]}", matrix[rows], matrix_stddev[rows])
    for parameter in describe(type(result.noise)):
        if values := getattr(result.noise, parameter.name):
            name = f"{parameter.name.partition('_')[0]} {parameter.doc.partition(',')[0][-1]}"
            table.add_row(name, *(f"{value:.3g}" for value in values), parameter.unit)
    output.console().print(table)
    turned = ", ".join(f"{one.axis} {np.rad2deg(one.angle_rad):.2f}" for one in found.turns if not one.fault)
    output.say(
        f"- {len(found.rests)} rests; positions {', '.join(found.positions) or 'none'}; turns (deg): {turned or 'none'}"
    )
    after = "" if found.residual_after_m_s2 is None else f", {found.residual_after_m_s2:.4f} corrected"
    held_out = len(found.rests) - len(found.positions)
    rests = f"all {len(found.rests)} rests, {held_out} of them not used for the fit"
    output.say(f"- | |f| - g | over {rests}, RMS: {found.residual_before_m_s2:.4f} m/s^2{after}")
    output.say(f"- noise from a rest of {rest_s:.4g} s")
    for sentence in sentences:
        output.say(f"- {sentence}")
