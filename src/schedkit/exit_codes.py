"""What each exit code means, for people: `schedctl help exit-codes` and docs/exit-codes.md are made from here."""

from schedkit.errors import ExitCode

MEANINGS = {
    ExitCode.OK: "Success.",
    ExitCode.FAILURE: (
        "It could not; the `error:` line says why. `kubectl scx status`: it is stalled. `kubectl scx why`: "
        "something could not be read. `schedctl status`: something could not be read, so the summary is "
        "`unknown`."
    ),
    ExitCode.DISCREPANCY: "`schedctl status`: the container runtimes and the kernel do not agree.",
    ExitCode.SLOT_TAKEN: "Another scheduler is attached, and a kernel takes one.",
    ExitCode.REJECTED: "The kernel refused to load the scheduler: its verifier, a missing right or option.",
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
        "`schedctl switch`, `enable`, `restore`, `trial`: the new scheduler did not attach, and the old one runs "
        "again. `kubectl scx status`: the new revision failed, and the nodes have the stable one again or are "
        "about to."
    ),
    ExitCode.NOT_DETACHED: "The scheduler was stopped and the kernel still says that one is attached.",
    ExitCode.ALREADY_EXISTS: "The name is already in use: a container, an object of the cluster.",
    ExitCode.COMMAND_FAILED: (
        "`schedctl bench`: the command that was to be measured failed, at once or in some of its runs."
    ),
    ExitCode.OUTDATED: "`schedctl update --check`: there is a newer version.",
    ExitCode.UNVERIFIED: (
        "The image was not verified here before, and `--offline` forbids asking. `kubectl scx verify`: sked has "
        "not verified it, or verifies nothing."
    ),
    ExitCode.UNSIGNED: "Nobody signed the image.",
    ExitCode.UNTRUSTED: "The image is signed, by others than the trust policy wants, or by too few of them.",
    ExitCode.EXPIRED: (
        "A certificate, or its authority, was not valid when the image was signed. `--allow-unsigned` does not help."
    ),
    ExitCode.NO_LOG_ENTRY: (
        "No trusted transparency log has the signature, and the trust policy requires one. `--allow-unsigned` "
        "does not help."
    ),
    ExitCode.BAD_SIGNATURE: "The signature is broken, or belongs to another image. `--allow-unsigned` does not help.",
    ExitCode.USAGE: "The command line is wrong.",
    ExitCode.BAD_DATA: "Invalid data: a corrupt file, a wrong digest, an invalid answer.",
    ExitCode.NOT_FOUND: (
        "What was named does not exist: a scheduler, an image, a container, an object of the cluster. No "
        "scheduler is enabled, or on trial."
    ),
    ExitCode.UNAVAILABLE: (
        "Something it needs is not there: a tool, a service, systemd, a kernel feature, a way to the cluster."
    ),
    ExitCode.INTERNAL: "A bug in schedkit. `SCHEDKIT_DEBUG=1` shows the traceback to report.",
    ExitCode.NO_SPACE: "The disk is full, or would be.",
    ExitCode.BUSY: "Another schedctl is at work on this machine; try again.",
    ExitCode.NO_PERMISSION: "The user may not do this.",
    ExitCode.TIMEOUT: (
        "A runtime or a registry did not respond in time. `kubectl scx status -w`: the rollout is not done after "
        "`--timeout`."
    ),
    ExitCode.INTERRUPTED: "Ctrl-C or SIGTERM; what had been started is undone.",
}
