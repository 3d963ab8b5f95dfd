"""Runs the command line by `python -m summhay_ray.cli`, where `summhay` is not on the path, as in a job."""

from summhay_ray.cli import main

if __name__ == "__main__":
    main()
