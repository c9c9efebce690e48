"""No deadlines: the first call of a kernel compiles it, and the machines are shared."""

import hypothesis

hypothesis.settings.register_profile("gristmill", deadline=None, print_blob=True)
hypothesis.settings.load_profile("gristmill")
