"""What `schedctl status` shows of what lasts: the enabled scheduler, the restarted one, and the one on trial."""

from typing import TYPE_CHECKING

from schedkit.schedctl.output import Json, Output, format_span, plain, words
from schedkit.unknown import Unknown

if TYPE_CHECKING:
    from schedkit.host.lasting import Lasting, Service
    from schedkit.host.model import Status
    from schedkit.host.trial_state import Trial
    from schedkit.host.units import Choice


def lasting_fields(lasting: "Lasting") -> Json:
    """Return the fields for JSON output."""
    enabled, trial = lasting.enabled, lasting.trial
    return {
        "enabled": service_fields(enabled, at_boot=lasting.at_boot) if enabled else None,
        "restarted": service_fields(lasting.rerun) if lasting.rerun else None,
        "trial": plain(trial) if trial is None or isinstance(trial, Unknown) else trial_fields(trial),
    }


def service_fields(service: "Service", **more: object) -> object:
    """A unit of schedctl; unknown as a whole where its file cannot be read."""
    choice, state = service.choice, service.state
    if isinstance(choice, Unknown):
        return plain(choice)
    told = None if isinstance(state, Unknown) else state
    return {
        **choice_fields(choice),
        "unit": service.unit,
        "running": service.running,
        "state": "active" if service.running else told.active if told else plain(state),
        "restarts": told.restarts if told else None,
        "exit_code": told.exit_code if told else None,
        **more,
    }


def choice_fields(choice: "Choice") -> Json:
    """What was chosen."""
    return {
        "scheduler": choice.scheduler,
        "image": choice.image,
        "digest": choice.digest,
        "driver": choice.driver,
        "args": list(choice.args),
        "mode": choice.mode or None,
        "verified": choice.verified,
        "restart": choice.restart,
    }


def trial_fields(trial: "Trial") -> Json:
    """A trial that is under way, or the last that ended."""
    return {
        "scheduler": trial.scheduler,
        "phase": trial.phase.value,
        "seconds_left": round(trial.left) if trial.is_under_way else 0,
        "back_to": trial.before.scheduler if trial.before else None,
        "why": plain(trial.why) or None,
        "ended_at": trial.at or None,
    }


def lasting_lines(lasting: "Lasting", status: "Status", output: Output) -> list[str]:
    """Return the lines for text output."""
    lines: list[str] = []
    if lasting.enabled:
        note = "" if lasting.at_boot else "not at boot (systemctl disabled it)"
        lines += _service_lines(lasting.enabled, "enabled", note, output)
    if lasting.rerun and (lasting.rerun.running or lasting.rerun.gave_up):
        lines += _service_lines(lasting.rerun, "restarted", "until the next boot", output)
    if isinstance(lasting.trial, Unknown):
        lines.append(f"{'trial':12}{words(lasting.trial)}")
    elif lasting.trial:
        lines += _trial_lines(lasting.trial, status)
    return lines


def _service_lines(service: "Service", title: str, note: str, output: Output) -> list[str]:
    choice = service.choice
    if isinstance(choice, Unknown):
        return [f"{title:12}{words(choice)}"]
    args = f" -- {' '.join(choice.args)}" if choice.args else ""
    told = ", ".join(one for one in (choice.scheduler + args, note, service.describe()) if one)
    return [f"{title:12}{told}", f"{'':12}{output.shorten(choice.image)}"]


def _trial_lines(trial: "Trial", status: "Status") -> list[str]:
    if trial.is_under_way:
        left = format_span(trial.left)
        told = f"{trial.scheduler} for another {left}, then back to {trial.back_to}; `schedctl keep` keeps it"
        return [f"{'trial':12}{told}"]
    if trial.sequence != status.kernel.enable_seq:  # something else has attached since: that is long ago
        return []
    return [f"{'trial':12}{trial.scheduler} ended at {trial.at}: {words(trial.why)}; back to {trial.back_to}"]
