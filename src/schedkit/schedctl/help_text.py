"""The help of schedctl on a terminal of 80 columns; written by `python -m schedkit.schedctl.reference`."""

TEXT = """\
Usage: schedctl [OPTIONS] COMMAND [ARGS]...

  Run sched_ext CPU schedulers from OCI images on this machine, and tell what
  the kernel is really doing.

Options:
  -d, --driver auto|podman|docker|containerd
                                  Runtime for new containers [default: auto,
                                  the first that responds].
  --socket PATH                   Where the runtime listens, if not in the
                                  usual place.
  --catalog FILE|URL              Look names up here first; may be given
                                  several times.
  --insecure-registry HOST[:PORT]
                                  Allow plain HTTP, or any certificate, for
                                  this registry.
  -v, --verbose                   Say more about what is done.
  -V, --version                   Show the version and exit.
  -h, --help                      Show this message and exit.

Choose a scheduler:
  list      List the schedulers of the catalog, and which are here.
  versions  List a scheduler's versions, newest first.
  info      Tell what an image is, and whether this kernel can run it.
  verify    Tell who signed an image, and whether it may run.
  pull      Fetch an image without running it.

Run it:
  run      Run a scheduler and wait until the kernel has it.
  switch   Replace the running scheduler with the shortest gap.
  update   Switch to the newest version of what runs.
  stop     Stop a scheduler and wait until the kernel let it go.
  restart  Stop a scheduler and start it again.
  detach   End an attached scheduler that nobody manages.
  bench    Measure which scheduler is better for a command.

Make it last:
  enable   Run a scheduler now and at every boot.
  disable  Run none at boot any more.
  restore  Go back to the enabled scheduler.
  trial    Try a scheduler, and go back unless it is kept.
  keep     Keep the scheduler that is on trial.
  import   Take over the choice of another manager.

See what happens:
  status   Tell what the kernel does, and whether the containers agree.
  ps       List the schedulers' containers.
  logs     Print what a scheduler said.
  inspect  Print everything known of one container, as JSON.
  watch    Follow the kernel's slot, live.
  metrics  Print what the kernel's slot is doing, for Prometheus.
  doctor   Look for what keeps schedulers from running here.

And:
  images      List the schedulers' images that are here.
  rmi         Remove images of schedulers.
  prune       Remove images of schedulers that no container uses.
  catalog     Keep the catalogs current.
  completion  Print the completion script of a shell.
  help        Show the help of a command.
  version     Show the version.

  'schedctl COMMAND --help' has examples. Exit codes: docs/exit-codes.md.
"""
