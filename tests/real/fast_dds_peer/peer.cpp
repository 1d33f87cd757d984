// A simulated robot with three joints on Fast DDS, which most ROS 2 installations use. It applies the last received
// velocities without a timeout, and publishes its joint states at 50 Hz. Loopback only.
//
//     g++ -std=c++17 -O1 peer.cpp -o peer -lfastrtps -lfastcdr && ./peer DOMAIN SECONDS
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fastcdr/Cdr.h>
#include <fastcdr/FastBuffer.h>
#include <fastdds/dds/domain/DomainParticipant.hpp>
#include <fastdds/dds/domain/DomainParticipantFactory.hpp>
#include <fastdds/dds/publisher/DataWriter.hpp>
#include <fastdds/dds/publisher/Publisher.hpp>
#include <fastdds/dds/subscriber/DataReader.hpp>
#include <fastdds/dds/subscriber/DataReaderListener.hpp>
#include <fastdds/dds/subscriber/SampleInfo.hpp>
#include <fastdds/dds/subscriber/Subscriber.hpp>
#include <fastdds/dds/topic/TopicDataType.hpp>
#include <fastdds/rtps/transport/UDPv4TransportDescriptor.h>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

using namespace eprosima::fastdds::dds;
using Doubles = std::vector<double>;
using Cdr = eprosima::fastcdr::Cdr;

struct JointState {
    int32_t sec = 0;
    uint32_t nanosec = 0;
    std::string frame_id;
    std::vector<std::string> name;
    Doubles position, velocity, effort;
    template <class F> void apply(F f) {
        f(sec), f(nanosec), f(frame_id), f(name), f(position), f(velocity), f(effort);
    }
};
struct Command {  // std_msgs/Float64MultiArray without layout dimensions
    uint32_t axes = 0, offset = 0;
    Doubles data;
    template <class F> void apply(F f) { f(axes), f(offset), f(data); }
};

template <class T> class Type : public TopicDataType {
  public:
    explicit Type(const char* name) { setName(name), m_typeSize = 4096, m_isGetKeyDefined = false; }
    bool serialize(void* data, eprosima::fastrtps::rtps::SerializedPayload_t* payload) override {
        eprosima::fastcdr::FastBuffer buffer(reinterpret_cast<char*>(payload->data), payload->max_size);
        Cdr cdr(buffer, Cdr::DEFAULT_ENDIAN, Cdr::DDS_CDR);
        payload->encapsulation = CDR_LE;
        cdr.serialize_encapsulation();
        static_cast<T*>(data)->apply([&](const auto& part) { cdr << part; });
        payload->length = static_cast<uint32_t>(cdr.getSerializedDataLength());
        return true;
    }
    bool deserialize(eprosima::fastrtps::rtps::SerializedPayload_t* payload, void* data) override {
        eprosima::fastcdr::FastBuffer buffer(reinterpret_cast<char*>(payload->data), payload->length);
        Cdr cdr(buffer, Cdr::DEFAULT_ENDIAN, Cdr::DDS_CDR);
        cdr.read_encapsulation();
        static_cast<T*>(data)->apply([&](auto& part) { cdr >> part; });
        return true;
    }
    std::function<uint32_t()> getSerializedSizeProvider(void*) override { return [] { return 4096u; }; }
    void* createData() override { return new T; }
    void deleteData(void* data) override { delete static_cast<T*>(data); }
    bool getKey(void*, eprosima::fastrtps::rtps::InstanceHandle_t*, bool) override { return false; }
};

struct CommandListener : DataReaderListener {
    std::mutex lock;
    std::array<double, 3> speed{};
    void on_data_available(DataReader* reader) override {
        Command command;
        SampleInfo info;
        while (reader->take_next_sample(&command, &info) == ReturnCode_t::RETCODE_OK) {
            if (!info.valid_data || command.data.size() != 3) continue;
            std::lock_guard<std::mutex> guard(lock);
            std::copy(command.data.begin(), command.data.end(), speed.begin());
            std::printf("%g %g %g\n", speed[0], speed[1], speed[2]);
            std::fflush(stdout);
        }
    }
};

int main(int, char** arguments) {
    DomainParticipantQos qos;
    auto udp = std::make_shared<eprosima::fastdds::rtps::UDPv4TransportDescriptor>();
    udp->interfaceWhiteList = {"127.0.0.1"};
    udp->maxInitialPeersRange = 16;
    qos.transport().use_builtin_transports = false;
    qos.transport().user_transports = {udp};
    eprosima::fastrtps::rtps::Locator_t local;
    eprosima::fastrtps::rtps::IPLocator::setIPv4(local, 127, 0, 0, 1);
    qos.wire_protocol().builtin.initialPeersList.push_back(local);
    auto* participant = DomainParticipantFactory::get_instance()->create_participant(std::atoi(arguments[1]), qos);
    if (!participant) return 1;
    TypeSupport joints(new Type<JointState>("sensor_msgs::msg::dds_::JointState_"));
    TypeSupport commands(new Type<Command>("std_msgs::msg::dds_::Float64MultiArray_"));
    joints.register_type(participant), commands.register_type(participant);
    auto* state_topic = participant->create_topic("rt/joint_states", joints.get_type_name(), TOPIC_QOS_DEFAULT);
    auto* command_topic = participant->create_topic("rt/commands", commands.get_type_name(), TOPIC_QOS_DEFAULT);
    DataWriterQos writes;
    writes.reliability().kind = RELIABLE_RELIABILITY_QOS;
    DataReaderQos reads;
    reads.reliability().kind = RELIABLE_RELIABILITY_QOS;
    CommandListener listener;
    auto* writer = participant->create_publisher(PUBLISHER_QOS_DEFAULT)->create_datawriter(state_topic, writes);
    participant->create_subscriber(SUBSCRIBER_QOS_DEFAULT)->create_datareader(command_topic, reads, &listener);
    JointState state;
    state.name = {"wrist", "shoulder", "elbow"};
    state.position = {0.3, 0.1, 0.2};
    std::puts("listening"), std::fflush(stdout);
    const auto start = std::chrono::steady_clock::now();
    for (int tick = 0; tick < 50 * std::atof(arguments[2]); ++tick) {
        std::this_thread::sleep_until(start + std::chrono::milliseconds(20 * tick));
        {
            std::lock_guard<std::mutex> guard(listener.lock);
            // Command order: shoulder, elbow, wrist.
            state.velocity = {listener.speed[2], listener.speed[0], listener.speed[1]};
        }
        for (int at = 0; at < 3; ++at) state.position[at] += 0.02 * state.velocity[at];
        const auto now = std::chrono::system_clock::now().time_since_epoch();
        state.sec = std::chrono::duration_cast<std::chrono::seconds>(now).count();
        state.nanosec = std::chrono::duration_cast<std::chrono::nanoseconds>(now).count() % 1000000000;
        writer->write(&state);
    }
    participant->delete_contained_entities();
    DomainParticipantFactory::get_instance()->delete_participant(participant);
}
