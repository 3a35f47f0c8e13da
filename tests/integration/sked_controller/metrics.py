"""What a manager's metrics tell of its work."""

import urllib.request

from lab.waiting import NotYetError, wait_for
from tests.integration.sked_controller.operator import SECONDS

WRITES = ("PATCH", "POST", "PUT", "DELETE")


def serve_metrics(port: int) -> list[str]:
    return [f"--metrics-bind-address=127.0.0.1:{port}", "--metrics-secure=false"]


def count(port: int, metric: str, *labels: str) -> int:
    """The sum of a metric over the lines that have these labels."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        lines = answer.read().decode().splitlines()
    found = [line for line in lines if line.startswith(f"{metric}{{") and all(label in line for label in labels)]
    return sum(int(line.split()[-1]) for line in found)


def count_requests(port: int, code: str, *methods: str) -> int:
    """How many requests a manager has sent with these methods that were answered with a code that begins so."""
    return sum(count(port, "rest_client_requests_total", f'code="{code}', f'method="{method}"') for method in methods)


def wait_serving(port: int) -> None:
    def probe() -> bool:
        try:
            count_requests(port, "2", "GET")
        except OSError as error:
            raise NotYetError(str(error)) from error
        return True

    wait_for("the manager's metrics", probe, SECONDS)
