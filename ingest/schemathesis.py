"""What schemathesis.sh needs beside its settings."""

import random

import schemathesis

strange = random.SystemRandom()  # Hypothesis seeds the usual one again and again


@schemathesis.hook
def before_call(context, case, kwargs):
    # Five wrong keys from one address are answered 429: each call comes from its own.
    case.headers["X-Forwarded-For"] = ".".join(str(strange.randrange(1, 255)) for _ in range(4))
    # The key that it works with is left as it is, or there would be little to see.
    if (case.path_parameters or {}).get("name") == "schemathesis":
        case.path_parameters["name"] = "another"
