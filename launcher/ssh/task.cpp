#include "launcher/ssh/task.hpp"

#include "rendezvous/wire/bytes.hpp"

#include <type_traits>

namespace ddprun::ssh {

namespace {

/// The fields in their order. Writer and reader both go over it, so they cannot differ.
template <typename Visitor, typename Task>
void visit_agent_task(Visitor& visit, Task& task) {
  visit(task.config_name);
  visit(task.config_text);
  visit(task.arguments);
  visit(task.secret);
  visit(task.mark);
  visit(task.columns);
}

template <typename Visitor, typename Settings>
void visit_settings(Visitor& visit, Settings& settings) {
  visit(settings.user);
  visit(settings.port);
  visit(settings.options);
  visit(settings.fan_out);
  visit(settings.program);
}

class Writer {
 public:
  void operator()(const std::string& text) { wire::append_string(out_, text); }
  void operator()(int number) { wire::append_integer(out_, std::int32_t{number}); }
  void operator()(std::uint32_t number) { wire::append_integer(out_, number); }
  void operator()(const std::vector<std::string>& texts) {
    (*this)(static_cast<std::uint32_t>(texts.size()));
    for (const auto& text : texts) (*this)(text);
  }
  void operator()(const std::vector<Target>& targets) {
    (*this)(static_cast<std::uint32_t>(targets.size()));
    for (const auto& target : targets) {
      (*this)(target.node);
      (*this)(target.name);
      (*this)(target.destination);
    }
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
  void operator()(std::uint32_t& value) { value = number<std::uint32_t>(); }
  void operator()(std::vector<std::string>& texts) {
    for (auto left = number<std::uint32_t>(); left > 0 && !has_failed_; --left) {
      (*this)(texts.emplace_back());
    }
  }
  void operator()(std::vector<Target>& targets) {
    for (auto left = number<std::uint32_t>(); left > 0 && !has_failed_; --left) {
      auto& target = targets.emplace_back();
      (*this)(target.node);
      (*this)(target.name);
      (*this)(target.destination);
    }
  }

  /// True if all was there and nothing is left.
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

template <typename Visitor, typename Task>
void visit_relay_task(Visitor& visit, Task& task) {
  visit(task.targets);
  visit_settings(visit, task.ssh);
  visit(task.variables);
  visit(task.folder);
  visit_agent_task(visit, task.agent);
}

}  // namespace

std::string encode(const AgentTask& task) {
  Writer writer;
  visit_agent_task(writer, task);
  return writer.take();
}

std::string encode(const RelayTask& task) {
  Writer writer;
  visit_relay_task(writer, task);
  return writer.take();
}

std::optional<AgentTask> decode_agent_task(std::string_view bytes) {
  AgentTask task;
  Reader reader(bytes);
  visit_agent_task(reader, task);
  return reader.is_done() ? std::optional(std::move(task)) : std::nullopt;
}

std::optional<RelayTask> decode_relay_task(std::string_view bytes) {
  RelayTask task;
  Reader reader(bytes);
  visit_relay_task(reader, task);
  const bool is_whole = reader.is_done() && !task.targets.empty() && task.ssh.fan_out > 0;
  return is_whole ? std::optional(std::move(task)) : std::nullopt;
}

std::string framed(const std::string& task) {
  std::string bytes(kGreeting);
  wire::append_integer(bytes, static_cast<std::uint32_t>(task.size()));
  return bytes + task;
}

}  // namespace ddprun::ssh
