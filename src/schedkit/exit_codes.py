"""What each exit code means, for people: `schedctl help exit-codes` and docs/exit-codes.md are made from here."""

from schedkit.errors import ExitCode

MEANINGS = {
    ExitCode.OK: "Success.",
    ExitCode.FAILURE: (
        "Failure; the `error:` line tells you why. `kubectl scx status`: the rollout is stalled. `kubectl scx why`: "
        "something could not be read. `schedctl status`: something could not be read, so the summary is "
        "`unknown`."
    ),
    ExitCode.DISCREPANCY: "`schedctl status`: the container runtimes and the kernel do not agree.",
    ExitCode.SLOT_TAKEN: "Another scheduler is attached; the slot is taken.",
    ExitCode.REJECTED: "The kernel refused to load the scheduler: BPF verifier, missing permission or kernel option.",
    ExitCode.EJECTED: (
        "The scheduler attached and the kernel ejected it: an error or a stall. `schedctl bench`: in some runs; "
        "the others are reported. `kubectl scx status`: on a node, and the rollout waits for a person."
    ),
    ExitCode.NOT_ATTACHED: (
        "The scheduler was started and did not attach in time, or ended before it did. `kubectl scx status`: on a "
        "node, and the rollout waits for a person."
    ),
    ExitCode.KERNEL_UNFIT: "This kernel cannot run this scheduler: no sched_ext, too old, isolated CPUs, real-time.",
    ExitCode.ROLLED_BACK: (
        "`schedctl switch`, `run --replace`, `update`, `enable`, `restore`, `trial`: the new scheduler did not attach, "
        "and the old one runs again. `kubectl scx status`: the new revision failed, and the nodes run the stable one "
        "again or are about to."
    ),
    ExitCode.NOT_DETACHED: "The scheduler was stopped, but the kernel still reports one as attached.",
    ExitCode.ALREADY_EXISTS: "The name of the container or of the Kubernetes object is already in use.",
    ExitCode.COMMAND_FAILED: ("`schedctl bench`: the measured command failed, at once or in some of its runs."),
    ExitCode.OUTDATED: "`schedctl update --check`: there is a newer version.",
    ExitCode.UNVERIFIED: (
        "The image was not verified on this machine before, and `--offline` is set. `kubectl scx verify`: sked has "
        "not verified it, or verifies nothing."
    ),
    ExitCode.UNSIGNED: "The image, or the project's catalog, is not signed.",
    ExitCode.UNTRUSTED: (
        "The image or catalog is signed, but not by those whom the trust policy requires, or by too few of them."
    ),
    ExitCode.EXPIRED: (
        "A certificate, or its authority, was not valid when the image or catalog was signed. `--allow-unsigned` does "
        "not override it."
    ),
    ExitCode.NO_LOG_ENTRY: (
        "No trusted transparency log has the signature, and the trust policy requires one. `--allow-unsigned` "
        "does not override it."
    ),
    ExitCode.BAD_SIGNATURE: (
        "The signature is broken, or belongs to another image or catalog. `--allow-unsigned` does not override it."
    ),
    ExitCode.USAGE: "The command line is wrong.",
    ExitCode.BAD_DATA: "Invalid data: a corrupt file, a wrong digest, an invalid response.",
    ExitCode.NOT_FOUND: (
        "A scheduler, image, container, file, program or Kubernetes object does not exist. No scheduler is enabled, or "
        "on trial."
    ),
    ExitCode.UNAVAILABLE: (
        "Something required is not available: a tool, a service, systemd, a kernel feature, the API server."
    ),
    ExitCode.INTERNAL: "A bug in schedkit. `SCHEDKIT_DEBUG=1` shows the traceback to report.",
    ExitCode.NO_SPACE: "The disk is full, or would be.",
    ExitCode.BUSY: "Another schedctl is running on this machine; try again.",
    ExitCode.NO_PERMISSION: "Permission denied.",
    ExitCode.TIMEOUT: (
        "A runtime or a registry did not respond in time. `schedctl wait`: the kernel was not in that state within "
        "`--timeout`. `kubectl scx status -w`: the rollout is not done after "
        "`--timeout`."
    ),
    ExitCode.INTERRUPTED: "Ctrl-C or SIGTERM; what was started is undone.",
}
