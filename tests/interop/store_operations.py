"""Every operation of PyTorch's store has the same result on the agent's server and PyTorch's own.

Cases without a method in the installed PyTorch are skipped.
"""
import os
import unittest

import store_clients
from store_clients import StoreTest, has_method, needs_method

INT64_MAX = 2**63 - 1


class Values(StoreTest):
    def test_get_returns_the_last_value_as_bytes(self):
        for value in ("v", "w" * 100_000, "two\nlines, a \0 and \u00e9"):
            self.same(value.encode(), lambda store, key, text=value: (
                store.set(key, text), store.get(key))[1])

    def test_empty_value_exists_at_once(self):
        self.same(b"", lambda store, key: (store.set(key, ""), store.get(key))[1])
        self.ours.set("empty", "")
        # A server that pushes the length before the value takes 0.2 s for each.
        begin = store_clients.now()
        for _ in range(100):
            self.assertEqual(self.ours.get("empty"), b"")
        self.assertLess(store_clients.now() - begin, 10)

    def test_largest_value_and_longest_key_are_returned(self):
        large = "x" * (8 << 20)
        self.same(True, lambda store, key: (
            store.set(key, large), store.get(key) == large.encode())[1])
        longest = "k" * (8192 - len("/"))
        self.same(b"v", lambda store, _: (store.set(longest, "v"), store.get(longest))[1])

    def test_longer_key_closes_only_the_connection_of_its_sender(self):
        rude = self.connect()
        with self.assertRaises(RuntimeError):
            rude.set("k" * 8192, "v")
            rude.get("k")
        self.ours.set("after", "v")
        self.assertEqual(self.ours.get("after"), b"v")

    def test_delete_removes_a_key_and_fails_for_an_absent_one(self):
        def delete_twice(store, key):
            store.set(key, "v")
            before = store.num_keys()
            return store.delete_key(key), store.delete_key(key), store.num_keys() - before
        self.same((True, False, -1), delete_twice)

    @needs_method("append")
    def test_append_creates_or_extends_a_value(self):
        self.same(b"abc", lambda store, key: (
            store.append(key, "a"), store.append(key, "bc"), store.get(key))[2])

    @needs_method("multi_set")
    def test_multi_set_and_multi_get(self):
        def set_and_get(store, key):
            store.multi_set([key + "1", key + "2", key + "3"], ["a", "", "c"])
            return store.multi_get([key + "3", key + "1", key + "2"]), store.multi_get([])
        self.same(([b"c", b"a", b""], []), set_and_get)

    @needs_method("has_extended_api")
    def test_the_store_has_the_extended_operations(self):
        self.same(True, lambda store, _: store.has_extended_api())

    @needs_method("check")
    def test_check_returns_whether_all_keys_exist(self):
        def check(store, key):
            store.set(key, "")
            return store.check([key]), store.check([key, key + "?"]), store.check([])
        self.same((True, False, True), check)

    @needs_method("list_keys")
    def test_the_keys_can_be_listed(self):
        def listed(store, key):
            store.set(key, "v")
            return key in store.list_keys(), key + "?" in store.list_keys()
        self.same((True, False), listed)


class Counters(StoreTest):
    def test_add_counts_from_0_and_leaves_decimal_text(self):
        self.same((-2, 5, b"5"), lambda store, key: (
            store.add(key, -2), store.add(key, 7), store.get(key)))

    def test_add_reads_a_value_as_c_does_and_wraps_around(self):
        for text, delta, total in (("12abc", 1, 13), ("  12", 1, 13), ("+4", -5, -1),
                                   (str(INT64_MAX), 1, -INT64_MAX - 1)):
            self.same((total, str(total).encode()), lambda store, key, t=text, d=delta: (
                store.set(key, t), store.add(key, d), store.get(key))[1:])

    def test_add_to_a_non_number_fails_and_changes_nothing(self):
        for text in ("", "abc", str(INT64_MAX + 1)):
            key = self.new_key()
            self.ours.set(key, text)
            self.ours.get(key)  # a SET has no answer: now it has been done
            with self.assertRaises(RuntimeError):
                self.connect().add(key, 1)
            self.assertEqual(self.ours.get(key), text.encode())


class CompareSet(StoreTest):
    def test_compare_set_sets_an_absent_key_if_expected_is_empty(self):
        self.same((b"new", b"new"), lambda store, key: (
            store.compare_set(key, "", "new"), store.get(key)))

    def test_compare_set_of_an_absent_key_returns_a_nonempty_expected_value(self):
        def compare(store, key):
            before = store.num_keys()
            return store.compare_set(key, "expected", "new"), store.num_keys() - before
        self.same((b"expected", 0), compare)

    def test_compare_set_replaces_only_the_expected_value(self):
        self.same((b"old", b"new", b"new"), lambda store, key: (
            store.set(key, "old"), store.compare_set(key, "other", "new"),
            store.compare_set(key, "old", "new"), store.get(key))[1:])

    def test_compare_set_accepts_empty_values(self):
        self.same((b"", b"x", b""), lambda store, key: (
            store.set(key, ""), store.compare_set(key, "y", "x"), store.compare_set(key, "", "x"),
            store.compare_set(key, "x", ""))[1:])


class Prefixes(StoreTest):
    def test_prefix_is_prepended_to_every_key(self):
        def use(store, key):
            inner = store_clients.PrefixStore("inner", store_clients.PrefixStore(key, store))
            inner.set("k", "v")
            return (inner.get("k"), store.get(key + "/inner/k"), inner.add("n", 3),
                    inner.compare_set("k", "v", "w"), inner.delete_key("k"), inner.delete_key("k"))
        self.same((b"v", b"v", 3, b"w", True, False), use)

    @needs_method("multi_set")
    def test_prefix_is_prepended_to_lists_of_keys(self):
        def use(store, key):
            inner = store_clients.PrefixStore(key, store)
            inner.multi_set(["a", "b"], ["1", "2"])
            inner.append("a", "0")
            return inner.multi_get(["b", "a"]), inner.check(["a", "b"]), inner.check(["c"])
        self.same(([b"2", b"10"], True, False), use)

    def test_number_of_keys_covers_the_whole_store(self):
        def count(store, key):
            before = store.num_keys()
            inner = store_clients.PrefixStore(key, store)
            inner.set("a", "")
            return inner.num_keys() - before
        self.same(1, count)


@store_clients.needs_queues
class Queues(StoreTest):
    def test_queue_is_first_in_first_out(self):
        def use(store, key):
            for value in ("a", "", "c"):
                store.queue_push(key, value)
            return store.queue_len(key), [store.queue_pop(key) for _ in range(3)]
        self.same((3, [b"a", b"", b"c"]), use)

    def test_empty_queue_has_length_0_and_a_nonblocking_pop_fails(self):
        self.same((0, "QueueEmptyError"), lambda store, key: (
            store.queue_len(key), self.failure(lambda: store.queue_pop(key, False))))

    def test_nonempty_queue_passes_check_but_is_not_a_key(self):
        def use(store, key):
            before = store.num_keys()
            store.queue_push(key, "v")
            full = store.check([key])
            store.queue_pop(key)
            return full, store.check([key]), store.num_keys() - before
        self.same((True, False, 0), use)

    def test_pushed_value_goes_to_the_waiting_client(self):
        def use(store, key):
            other = self.connect_like(store)
            popped = store_clients.in_thread(lambda: other.queue_pop(key))
            store.queue_push(key, "v")
            return popped.result(), store.queue_len(key)
        self.same((b"v", 0), use)


@unittest.skipUnless(has_method("barrier"), "this PyTorch has no barrier of the server's")
class Barriers(StoreTest):
    def test_barrier_opens_when_the_last_client_arrives(self):
        def use(store, key):
            others = [self.connect_like(store) for _ in range(2)]
            through = [store_clients.in_thread(lambda s=s: s.barrier(key, 3)) for s in others]
            store.barrier(key, 3)
            return [one.result() for one in through], store.get(key)
        self.same(([None, None], b"3"), use)


class Clients(StoreTest):
    def test_clients_with_a_world_size_are_counted_under_a_server_key(self):
        before = self.ours.num_keys()
        for _ in range(3):
            self.connect(world_size=3)
        self.assertEqual(self.ours.num_keys() - before, 1)
        self.assertEqual(self.failure(lambda: self.connect(seconds=1).get("init/")), self.timed_out)

    @unittest.skipIf(store_clients.is_legacy() or store_clients.OPTIONS,
                     "only since 2.2, and with libuv, does a second server step back")
    def test_server_at_the_agents_port_becomes_a_client_of_the_agent(self):
        self.ours.set("hosted", "by the agent")
        late = store_clients.connect("127.0.0.1", int(os.environ["MASTER_PORT"]), is_master=True)
        self.assertEqual(late.get("hosted"), b"by the agent")


if __name__ == "__main__":
    store_clients.main()
