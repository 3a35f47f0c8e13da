pytest_plugins = ["lab.testing"]
