#include "tests/support/rank_errors.hpp"
#include <ddprun/rank_agreement.hpp>

#include <doctest/doctest.h>

namespace rank_agreement_test {

using ddprun::describe_disagreement;
using ddprun::Error;
using ddprun::Fact;
using ddprun::ProcessGroup;
using ddprun::require_agreement;
using ddprun::test::errors_of_ranks;
using Lists = std::vector<std::vector<Fact>>;

TEST_SUITE("rank agreement") {
  TEST_CASE("rank agreement: the first difference is reported with its ranks") {
    struct Case {
      Lists lists;
      std::string text;
    };
    const Fact a{"a", "1"};
    const Fact b{"b", "1"};
    const Fact b2{"b", "2"};
    const Fact b3{"b", "3"};
    const Fact c{"c", "1"};
    const std::vector<Case> cases = {
        {{{a, b}}, ""},
        {{{a, b}, {a, b}}, ""},
        {{{}, {}}, ""},
        {{{a, b}, {a, b2}}, "b is 2 on rank 1, 1 on rank 0"},
        {{{b}, {b2}, {b}, {b2}}, "b is 2 on ranks 1 and 3, 1 on rank 0"},
        {{{b}, {b2}, {b2}, {b2}}, "b is 2 on ranks 1, 2 and 3, 1 on rank 0"},
        {{{b}, {b2}, {b3}}, "b is 2 on rank 1, 1 on rank 0 (rank 2 differs, too)"},
        {{{b}, {b3}, {b2}, {b3}, {}},
         "b is 3 on ranks 1 and 3, 1 on rank 0 (ranks 2 and 4 differ, too)"},
        {{{a}, {a, b}}, "rank 1 has b, which rank 0 lacks"},
        {{{a}, {a, b}, {a, b}}, "ranks 1 and 2 have b, which rank 0 lacks"},
        {{{a, b}, {a, b}, {a}}, "rank 2 lacks b of rank 0"},
        {{{a, b}, {a}, {a}}, "ranks 1 and 2 lack b of rank 0"},
        {{{a, b}, {a, c}}, "rank 1 has c where rank 0 has b"},
        {{{a, b}, {a, c}, {a, c}}, "ranks 1 and 2 have c where rank 0 has b"},
    };
    for (const auto& test : cases) CHECK(describe_disagreement(test.lists) == test.text);
  }

  TEST_CASE("rank agreement: equal lists cause no error") {
    const auto errors = errors_of_ranks(4, [](ProcessGroup& group) {
      require_agreement(group, "test", {{"one", "1"}, {"two", "2"}});
      require_agreement(group, "test", {});
    });
    CHECK(errors == std::vector<std::string>(4));
  }

  TEST_CASE("rank agreement: all ranks get the same error") {
    for (int odd = 0; odd < 3; ++odd) {
      const auto errors = errors_of_ranks(3, [odd](ProcessGroup& group) {
        require_agreement(group, "test",
                          {{"first", "same"},
                           {"second", group.rank() == odd ? "odd" : "even"},
                           {"third", "same"}});
      });
      const std::string expected = odd == 0
                                       ? "even on ranks 1 and 2, odd on rank 0"
                                       : "odd on rank " + std::to_string(odd) + ", even on rank 0";
      CHECK(errors == std::vector<std::string>(3, "test: the ranks differ: second is " + expected));
    }
  }

  TEST_CASE("rank agreement: lists differ even if only by an additional empty entry") {
    const auto errors = errors_of_ranks(2, [](ProcessGroup& group) {
      require_agreement(group, "test", std::vector<Fact>(group.rank() == 0 ? 1 : 2));
    });
    CHECK(errors ==
          std::vector<std::string>(2, "test: the ranks differ: rank 1 has , which rank 0 lacks"));
  }

  TEST_CASE("rank agreement: a difference is detected even in lists too large to exchange") {
    const auto errors = errors_of_ranks(2, [](ProcessGroup& group) {
      std::string text(ddprun::kAgreementBytesMax / 2, 'x');
      text.front() = group.rank() == 0 ? 'a' : 'b';
      require_agreement(group, "test", {{"text", text}});
    });
    CHECK(errors ==
          std::vector<std::string>(2, "test: the ranks differ: too many differences to list"));
  }
}

}  // namespace rank_agreement_test
