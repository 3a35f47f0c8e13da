"""The help of schedctl on a terminal of 80 columns; written by `python -m website.reference`."""

TEXT = """\
Usage: schedctl [OPTIONS] COMMAND [ARGS]...

  Run sched_ext CPU schedulers from OCI images on this machine, and show what
  the kernel really does.

Options:
  -d, --driver auto|podman|docker|containerd
                                  Runtime for new containers [default: auto,
                                  the first that responds].
  --socket PATH                   Socket of the runtime, if not in the usual
                                  place.
  --catalog FILE|URL              Look up names here first; can be repeated.
  --insecure-registry HOST[:PORT]
                                  Allow plain HTTP, or any certificate, for
                                  this registry.
  -v, --verbose                   Show more details.
  -V, --version                   Show the version and exit.
  -h, --help                      Show this message and exit.

Choose a scheduler:
  list      List the schedulers in the catalog, and which are on this machine.
  versions  List a scheduler's versions, newest first.
  info      Show what an image is, and whether this kernel can run it.
  verify    Show who signed an image, and whether it may run.
  pull      Fetch an image without running it.

Run it:
  run      Run a scheduler and wait until the kernel has attached it.
  switch   Replace the running scheduler, with the shortest gap.
  update   Switch to the newest version of the running scheduler.
  stop     Stop a scheduler and wait until the kernel has detached it.
  restart  Stop a scheduler and start it again.
  detach   Detach a scheduler that schedctl does not manage.
  wait     Wait until a scheduler is attached, detached or ejected.
  bench    Measure which scheduler is better for a command.

Keep it running:
  enable   Run a scheduler now and at every boot.
  disable  Stop starting a scheduler at boot.
  restore  Go back to the enabled scheduler.
  trial    Try a scheduler for a while; go back unless you keep it.
  keep     Keep the scheduler that is on trial.
  import   Import the settings of scx_loader.

See what happens:
  status   Show what the kernel runs, and whether the containers agree.
  ps       List the schedulers' containers.
  logs     Show a scheduler's output.
  inspect  Print everything known about one container, as JSON.
  watch    Follow the kernel's scheduler slot, live.
  events   Follow what the kernel attaches, detaches and ejects.
  metrics  Print the kernel's scheduler metrics, for Prometheus.
  doctor   Check whether this machine can run schedulers.

Other:
  images      List the schedulers' images on this machine.
  rmi         Remove images of schedulers.
  prune       Remove images of schedulers that no container uses.
  catalog     Update the catalogs.
  config      Show and change schedctl's settings.
  completion  Print the completion script for a shell.
  help        Show the help of a command.
  version     Show the version.

  Exit codes: 'schedctl help exit-codes'. Examples: 'schedctl COMMAND --help'.
"""
