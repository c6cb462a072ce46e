#include "worker_runtime/ddp/rank_agreement.hpp"

#include "tests/support/rank_errors.hpp"

#include <doctest/doctest.h>

using ddprun::describe_disagreement;
using ddprun::Error;
using ddprun::ProcessGroup;
using ddprun::require_agreement;
using ddprun::test::errors_of_ranks;
using Lists = std::vector<std::vector<std::string>>;

TEST_SUITE("rank agreement") {
  TEST_CASE("the first difference is described with the ranks that have it") {
    struct Case {
      Lists lists;
      std::string text;
    };
    const std::vector<Case> cases = {
        {{{"a", "b"}}, ""},
        {{{"a", "b"}, {"a", "b"}}, ""},
        {{{}, {}}, ""},
        {{{"a", "b"}, {"a", "c"}}, "rank 0 has b, rank 1 has c"},
        {{{"a"}, {"b"}, {"a"}, {"b"}}, "rank 0 has a, ranks 1, 3 differ, rank 1 has b"},
        {{{"a"}, {"b"}, {"c"}}, "rank 0 has a, ranks 1, 2 differ, rank 1 has b"},
        {{{"a"}, {"a", "b"}}, "rank 0 has nothing, rank 1 has b"},
        {{{"a", "b"}, {"a", "b"}, {"a"}}, "rank 0 has b, rank 2 has nothing"},
        {{{"a", "b"}, {"x"}}, "rank 0 has a, rank 1 has x"},
    };
    for (const auto& test : cases) CHECK(describe_disagreement(test.lists) == test.text);
  }

  TEST_CASE("ranks with the same list go on") {
    const auto errors = errors_of_ranks(4, [](ProcessGroup& group) {
      require_agreement(group, "test", {"one", "two"});
      require_agreement(group, "test", {});
    });
    CHECK(errors == std::vector<std::string>(4));
  }

  TEST_CASE("all ranks get the same error, whichever of them differs") {
    for (int odd = 0; odd < 3; ++odd) {
      const auto errors = errors_of_ranks(3, [odd](ProcessGroup& group) {
        require_agreement(group, "test", {"same", group.rank() == odd ? "odd" : "even", "same"});
      });
      const std::string expected =
          odd == 0
              ? "test: the ranks differ: rank 0 has odd, ranks 1, 2 differ, rank 1 has even"
              : "test: the ranks differ: rank 0 has even, rank " + std::to_string(odd) + " has odd";
      CHECK(errors == std::vector<std::string>(3, expected));
    }
  }

  TEST_CASE("lists of different lengths are told apart, also by an empty text") {
    const auto errors = errors_of_ranks(2, [](ProcessGroup& group) {
      require_agreement(group, "test", std::vector<std::string>(group.rank() == 0 ? 1 : 2));
    });
    CHECK(errors ==
          std::vector<std::string>(2, "test: the ranks differ: rank 0 has nothing, rank 1 has "));
  }

  TEST_CASE("lists too large to exchange are still noticed") {
    const auto errors = errors_of_ranks(2, [](ProcessGroup& group) {
      std::string text(ddprun::kAgreementBytesMax / 2, 'x');
      text.front() = group.rank() == 0 ? 'a' : 'b';
      require_agreement(group, "test", {text});
    });
    CHECK(errors == std::vector<std::string>(2, "test: the ranks differ: too much to say in what"));
  }
}
