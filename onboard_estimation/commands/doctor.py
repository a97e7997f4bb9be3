"""`onboard-estimation doctor`."""

from __future__ import annotations

from onboard_estimation.commands import output

EXAMPLES = output.examples("doctor", "doctor --json")

EXIT_FAULTS = 1

_STYLES = {"ok": "green", "note": "yellow", "fault": "bold red"}


def doctor(json: output.JsonOption = False) -> int:
    """Check what the live graph needs: ROS 2, DDS, network, clocks, ports, cache, capabilities.

    Two processes exchange a message, so that what is said of the network is tried. Each finding is `ok`, a `note`, or
    a `fault`, with its repair. Exits with 1 where there is a fault.
    """
    from dataclasses import asdict

    from rich.text import Text

    from onboard_estimation.live import doctor as looks

    findings = []
    with output.steps("checking", quiet=json) as progress:
        for finding in looks.findings():
            findings.append(finding)
            progress(finding.subject)
    faults = sum(finding.state == "fault" for finding in findings)
    if json:
        output.print_json({"faults": faults, "findings": [asdict(finding) for finding in findings]})
        return EXIT_FAULTS if faults else 0
    table = output.table("", "what", "", "found", "repair")
    for finding in findings:
        style = _STYLES[finding.state]
        table.add_row(finding.subject, Text(finding.state, style), finding.text, finding.repair)
    output.console().print(table)
    notes = sum(finding.state == "note" for finding in findings)
    output.say(f"{faults or 'no'} fault{'' if faults == 1 else 's'}, {notes} note{'' if notes == 1 else 's'}")
    return EXIT_FAULTS if faults else 0
