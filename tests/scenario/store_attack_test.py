"""Clients that attack the workers' store: the agent answers signals and returns its memory.

The attacks are those of tests/bench/store_under_attack, cut short.

Usage: store_attack_test.py DDPRUN
"""
import importlib.machinery
import importlib.util
import multiprocessing
import os
import pathlib
import resource
import signal
import sys
import time
import unittest

BENCH = pathlib.Path(__file__).parents[1] / "bench" / "store_under_attack"
loader = importlib.machinery.SourceFileLoader("store_under_attack", str(BENCH))
attacks = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
loader.exec_module(attacks)

DDPRUN = pathlib.Path(sys.argv.pop(1)).resolve()
TIME_LIMIT = 60  # seconds


def processor_time(pid):
    ticks = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")


class StoreAttackTest(unittest.TestCase):
    def setUp(self):
        self.run = attacks.Run(DDPRUN)
        self.process = self.run.process
        self.addCleanup(self.end)

    def end(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def attack(self, attack):
        attacker = multiprocessing.Process(target=attack, args=(self.run.port,))
        attacker.start()

        def end():
            attacker.kill()
            attacker.join()
        self.addCleanup(end)
        return end

    def wait_until(self, condition, what):
        deadline = time.monotonic() + TIME_LIMIT
        while not condition():
            self.assertLess(time.monotonic(), deadline, f"not within {TIME_LIMIT} s: {what}")
            time.sleep(0.01)

    def memory(self):
        """Resident MiB of the agent."""
        return attacks.memory(self.process.pid)

    def has_ended(self):
        options = os.WEXITED | os.WNOWAIT | os.WNOHANG
        return os.waitid(os.P_PID, self.process.pid, options) is not None

    def test_sigterm_is_handled_while_clients_pipeline_list_keys(self):
        attacks.fill(self.run.port).close()
        self.attack(attacks.pipeline_list_keys)
        used = processor_time(self.process.pid)
        self.wait_until(lambda: processor_time(self.process.pid) > used + 0.3, "the attack")
        used = processor_time(self.process.pid)
        self.process.send_signal(signal.SIGTERM)
        self.wait_until(self.has_ended, "the end of the run")
        # Processor time, since other programs may delay this one. Serving all requests takes 20 s.
        self.assertLess(processor_time(self.process.pid) - used, 1)

    def test_memory_is_returned_after_attacks(self):
        before = self.memory()
        for name in ("waits", "halves of values"):
            with self.subTest(name):
                end = self.attack(attacks.ATTACKS[name])
                self.wait_until(lambda: self.memory() > before + 20, "the attack")
                end()
                self.wait_until(lambda: self.memory() < 2 * before + 4, "memory is returned")


if __name__ == "__main__":
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    unittest.main()
