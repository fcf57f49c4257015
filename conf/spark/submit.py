"""The program for spark-submit: `spark-submit [Spark's options] submit.py enforce [options]`."""  # noqa: INP001 the package contains it next to the settings

from jobs.__main__ import main

if __name__ == "__main__":
    main()
