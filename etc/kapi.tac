# For `twistd -n --python kapi.tac`: the flags come from KAPI_FLAGS, or from the file that KAPI_CONFIG names.
import os
import shlex

from twisted.application.service import Application

from kapi.tap import flags_from_file, make_service_from_flags

flags = shlex.split(os.environ.get("KAPI_FLAGS", ""))
if "KAPI_CONFIG" in os.environ:
    flags = [*flags_from_file(os.environ["KAPI_CONFIG"]), *flags]

application = Application("kapi")
make_service_from_flags(flags).setServiceParent(application)
