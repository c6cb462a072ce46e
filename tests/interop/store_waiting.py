"""Waits in the agent's store: time limits, killed clients, many clients, invalid requests."""
import concurrent.futures
import datetime
import os
import signal
import socket
import struct
import threading
import unittest
import warnings

import store_clients
from store_clients import StoreTest, in_thread, is_legacy, needs_method

CLIENTS = 1000
PROCESSES = 5  # each with its share of the clients: a process may open some thousand files


# Python 3.12 and later warn of a fork beside threads; those of this program hold no lock then.
warnings.filterwarnings("ignore", ".*use of fork", DeprecationWarning)


def milliseconds(number):
    return datetime.timedelta(milliseconds=number)


class Waiting(StoreTest):
    def same_after_time_limits(self, expected, use):
        """Like same(); but PyTorch 1.13's own server replies to a wait that its client has given
        up, and the client then takes that byte for the first of its next reply."""
        if is_legacy():
            self.assertEqual(use(self.ours, self.new_key()), expected)
        else:
            self.same(expected, use)

    def test_wait_ends_when_the_key_exists(self):
        def use(store, key):
            store.set(key + "1", "")
            store.wait([key + "1"])
            other = self.connect_like(store)
            waiting = in_thread(lambda: other.wait([key + "1", key + "2"]))
            store.set(key + "2", "")
            return waiting.result()
        self.same(None, use)

    def test_wait_times_out_and_the_client_stays_usable(self):
        def use(store, key):
            failed = self.failure(lambda: store.wait([key], milliseconds(20)))
            store.set(key, "v")
            return failed, store.get(key), store.add(key + "n", 3)
        self.same_after_time_limits((self.timed_out, b"v", 3), use)

    def test_get_waits_as_long_as_the_store_allows(self):
        def use(store, key):
            client = self.connect_like(store)
            client.set_timeout(milliseconds(20))
            failed = self.failure(lambda: client.get(key))
            client.set_timeout(datetime.timedelta(seconds=store_clients.SECONDS_ALLOWED))
            # The socket of PyTorch 1.13 keeps the limit of the last wait until the next one begins.
            store.set(key + "0", "")
            client.get(key + "0")
            client.add(key + "n", 1)
            waiting = in_thread(lambda: client.get(key))
            store.set(key, "v")
            return failed, waiting.result()
        self.same_after_time_limits((self.timed_out, b"v"), use)

    @needs_method("multi_get")
    def test_multi_get_waits_for_all_of_its_keys(self):
        def use(store, key):
            client = self.connect_like(store)
            client.set_timeout(milliseconds(20))
            store.set(key + "1", "a")
            failed = self.failure(lambda: client.multi_get([key + "1", key + "2"]))
            client.set_timeout(datetime.timedelta(seconds=store_clients.SECONDS_ALLOWED))
            waiting = in_thread(lambda: client.multi_get([key + "1", key + "2"]))
            store.multi_set([key + "2"], ["b"])
            return failed, waiting.result()
        self.same((self.timed_out, [b"a", b"b"]), use)

    @unittest.skipIf(is_legacy(), "this PyTorch's clients cannot cancel a wait")
    def test_key_set_after_a_timeout_leaves_no_stray_response(self):
        def use(store, key):
            client = self.connect_like(store)
            failed = self.failure(lambda: client.wait([key], milliseconds(20)))
            store.set(key, "v")
            return failed, store.get(key), client.add(key + "n", 3), client.get(key)
        self.same((self.timed_out, b"v", 3, b"v"), use)

    def test_next_request_cancels_the_wait_of_an_old_client(self):
        key = self.new_key()
        client = self.connect()
        self.assertEqual(self.failure(lambda: client.wait([key], milliseconds(20))), self.timed_out)
        self.assertEqual(client.add(key + "n", 3), 3)
        self.ours.set(key, "v")
        self.ours.get(key)
        self.assertEqual(client.add(key + "n", 3), 6)
        self.assertEqual(client.get(key), b"v")

    def test_wait_ends_even_if_its_key_is_deleted_afterwards(self):
        def use(store, key):
            other = self.connect_like(store)
            waiting = in_thread(lambda: other.wait([key + "a", key + "b"]))
            # Whether the wait comes before or after the first two, it needs the last ones only.
            store.set(key + "a", "")
            store.set(key + "b", "")
            return waiting.result(), store.delete_key(key + "a")
        self.same((None, True), use)


class DyingClients(StoreTest):
    def wait_in_a_process(self, key):
        """Starts a process that waits for `key`; returns when it is about to wait."""
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            client = self.connect()
            os.write(writing, b".")
            client.wait([key])
            os._exit(0)
        os.read(reading, 1)
        os.close(reading)
        os.close(writing)
        return pid

    def test_clients_killed_while_waiting_do_not_affect_others(self):
        key = self.new_key()
        victims = [self.wait_in_a_process(key) for _ in range(10)]
        survivor = self.wait_in_a_process(key)
        for pid in victims:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        self.assertEqual(self.ours.add(key + "n", 1), 1)
        self.ours.set(key, "v")
        self.assertEqual(os.waitpid(survivor, 0)[1], 0)

    @store_clients.needs_queues
    def test_value_offered_to_a_killed_client_goes_to_the_next(self):
        key = self.new_key()
        victim = self.wait_in_a_process(key)
        other = self.connect()
        popped = in_thread(lambda: other.queue_pop(key))
        os.kill(victim, signal.SIGKILL)
        os.waitpid(victim, 0)
        self.ours.queue_push(key, "v")
        self.assertEqual(popped.result(), b"v")


class RudeClients(StoreTest):
    @staticmethod
    def connect_raw():
        address = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
        return socket.create_connection(address, store_clients.SECONDS_ALLOWED)

    def test_half_sent_request_does_not_delay_others_and_completes_later(self):
        key = self.new_key().encode()
        set_without_value = b"\x00" + struct.pack("<Q", len(key) + 1) + b"/" + key
        with self.connect_raw() as slow:
            slow.sendall(set_without_value + struct.pack("<Q", 4) + b"lat")
            self.assertEqual(self.ours.add(self.new_key(), 5), 5)
            self.assertEqual(self.connect().add(self.new_key(), 6), 6)
            slow.sendall(b"e")
            self.assertEqual(self.ours.get(key.decode()), b"late")

    def test_invalid_request_closes_only_the_connection_of_its_sender(self):
        for rude in (b"GET / HTTP/1.1\r\n\r\n", b"\x00\xff\xff\xff\x7f", b"\x16\x03\x01",
                     b"\x05" + struct.pack("<Q", 1 << 40)):
            with self.connect_raw() as client:
                client.sendall(rude)
                try:
                    self.assertEqual(client.recv(1), b"")
                except ConnectionResetError:
                    pass  # it had not read all
        self.assertEqual(self.ours.add(self.new_key(), 5), 5)


class ManyClients(StoreTest):
    def join_and_wait(self, key, count):
        """Clients in threads of this process: each joins, and waits for the last one."""
        def join(_):
            client = self.connect()
            if client.add(key + "joined", 1) == CLIENTS:
                client.set(key + "complete", "yes")
            return client.get(key + "complete")
        threading.stack_size(256 << 10)
        with concurrent.futures.ThreadPoolExecutor(count) as pool:
            return list(pool.map(join, range(count))) == [b"yes"] * count

    def test_thousand_clients_pass_a_barrier(self):
        key = self.new_key()
        pids = []
        for _ in range(PROCESSES):
            pids.append(os.fork())
            if pids[-1] == 0:
                os._exit(0 if self.join_and_wait(key, CLIENTS // PROCESSES) else 1)
        self.assertEqual([os.waitpid(pid, 0)[1] for pid in pids], [0] * PROCESSES)
        self.assertEqual(self.ours.get(key + "joined"), str(CLIENTS).encode())


if __name__ == "__main__":
    store_clients.main()
