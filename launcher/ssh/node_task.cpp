#include "launcher/ssh/node_task.hpp"

#include "rendezvous/wire/bytes.hpp"

#include <cstdint>
#include <utility>

namespace ddprun::ssh {

namespace {

/// Visits the fields in their order on the wire, for both directions.
template <typename Visitor, typename Task>
void visit_fields(Visitor& visit, Task& task) {
  visit(task.node_name);
  visit(task.variables);
  visit(task.folder);
  visit(task.config_name);
  visit(task.config_text);
  visit(task.arguments);
  visit(task.secret);
  visit(task.mark);
  visit(task.columns);
}

class Writer {
 public:
  void operator()(const std::string& text) { wire::append_string(out_, text); }
  void operator()(int number) { wire::append_integer(out_, std::int32_t{number}); }
  void operator()(const std::vector<std::string>& texts) {
    wire::append_integer(out_, static_cast<std::uint32_t>(texts.size()));
    for (const auto& text : texts) (*this)(text);
  }

  std::string take() { return std::move(out_); }

 private:
  std::string out_;
};

class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  void operator()(std::string& text) {
    const auto size = number<std::uint64_t>();
    if (size > bytes_.size()) return fail();
    text = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
  }
  void operator()(int& value) { value = number<std::int32_t>(); }
  void operator()(std::vector<std::string>& texts) {
    for (auto left = number<std::uint32_t>(); left > 0 && !has_failed_; --left) {
      (*this)(texts.emplace_back());
    }
  }

  /// Returns true if all fields were present and no bytes are left.
  bool is_done() const { return !has_failed_ && bytes_.empty(); }

 private:
  template <typename Integer>
  Integer number() {
    if (bytes_.size() < sizeof(Integer)) {
      fail();
      return 0;
    }
    const auto value = wire::load_integer<Integer>(bytes_.data());
    bytes_.remove_prefix(sizeof(Integer));
    return value;
  }

  void fail() {
    has_failed_ = true;
    bytes_ = {};
  }

  std::string_view bytes_;
  bool has_failed_ = false;
};

}  // namespace

std::string encode(const NodeTask& task) {
  Writer writer;
  visit_fields(writer, task);
  return writer.take();
}

std::optional<NodeTask> decode_node_task(std::string_view bytes) {
  NodeTask task;
  Reader reader(bytes);
  visit_fields(reader, task);
  return reader.is_done() ? std::optional(std::move(task)) : std::nullopt;
}

std::string framed(const NodeTask& task) {
  const auto body = encode(task);
  std::string bytes(kGreeting);
  wire::append_integer(bytes, static_cast<std::uint32_t>(body.size()));
  return bytes + body;
}

}  // namespace ddprun::ssh
