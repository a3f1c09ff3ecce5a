-- Seriatim's feeds in Wireshark and tshark: what is in each datagram, and what is wrong with it.
--
--     tshark -X lua_script:seriatim.lua -d udp.port==1234,seriatim -O seriatim -i lo
--     tshark -X lua_script:seriatim.lua -o 'seriatim.ports:1234' -T fields -e seriatim.number ...
--
-- Reads the codecs netstring, netstring-subject and binary, one or more messages in a datagram;
-- for moldudp64 Wireshark has a dissector of its own. Datagrams on ports that nobody has named
-- are taken, too, where every byte is right. On TCP, what is said on cquencer's port in netstring
-- framing (cquencer.ports). docs/multicast.md draws what is read here.

local feed = Proto("seriatim", "Seriatim feed")
local cquencer = Proto("cquencer", "cquencer's port, netstring framing")

local KINDS = { [0] = "message", [1] = "heartbeat", [2] = "end of session" }
local NUMBER_MAX = UInt64.new(0xFFFFFFFF, 0x7FFFFFFF)
local HEAD_SIZE, RECORD_SIZE = 36, 26
local COMMA, ZERO = 44, 48
local OWN = { ["$SEQ.NEXT"] = 1, ["$SEQ.END"] = 2 } -- subjects that no message can have

local f = {
    kind = ProtoField.uint8("seriatim.kind", "Kind", base.DEC, KINDS),
    frame = ProtoField.none("seriatim.frame", "Frame"),
    length = ProtoField.uint32("seriatim.length", "Length", base.DEC, nil, nil,
        "What the frame or the record says of its length"),
    number = ProtoField.uint64("seriatim.number", "Number", base.DEC),
    next = ProtoField.uint64("seriatim.next", "Next number", base.DEC, nil, nil,
        "Of a heartbeat, or at the end: the number of the next message to come"),
    subject = ProtoField.string("seriatim.subject", "Subject"),
    headers = ProtoField.string("seriatim.headers", "Headers"),
    payload = ProtoField.bytes("seriatim.payload", "Payload"),
    time = ProtoField.absolute_time("seriatim.time", "Time", base.UTC),
    count = ProtoField.uint16("seriatim.count", "Messages in this datagram", base.DEC),
    journal = ProtoField.uint64("seriatim.journal", "Journal", base.HEX),
    epoch = ProtoField.uint32("seriatim.epoch", "Epoch", base.DEC),
    previous = ProtoField.uint64("seriatim.previous", "Previous number", base.DEC),
}
feed.fields = f
local malformed = ProtoExpert.new("seriatim.malformed", "Malformed", expert.group.MALFORMED,
    expert.severity.ERROR)
feed.experts = { malformed }

local c = {
    message = ProtoField.bytes("cquencer.message", "Message"),
    query = ProtoField.none("cquencer.query", "Query: which number is the last one"),
    number = ProtoField.uint64("cquencer.number", "Number", base.DEC),
}
cquencer.fields = c
local wrong = ProtoExpert.new("cquencer.malformed", "Malformed", expert.group.MALFORMED,
    expert.severity.ERROR)
cquencer.experts = { wrong }

feed.prefs.ports = Pref.range("UDP ports", "", "Ports of feeds, as 1234,1240-1249", 65535)
cquencer.prefs.ports = Pref.range("TCP ports", "", "cquencer's ports, as 3001", 65535)

-- Netstrings. Positions are those of `raw`, a Lua string, which begins at 1. What is wrong is
-- raised as { at, why }.

local function fail(at, why) error({ at = at, why = why }, 0) end

-- The netstring at `at`, which is to end before `stop`: where its content begins and ends (one
-- behind it, where the comma is), and what follows it.
local function netstring(raw, at, stop)
    local digits, colon = raw:match("^(%d+)():", at)
    if not digits then fail(at, "no length where a netstring begins") end
    if #digits > 1 and digits:byte(1) == ZERO then fail(at, "a length begins with 0") end
    if #digits > 6 then fail(at, "longer than a datagram") end
    local first = colon + 1
    local comma = first + tonumber(digits)
    if comma >= stop then
        fail(at, string.format("the netstring ends %d bytes later: cut off?", comma + 1 - stop))
    end
    if raw:byte(comma) ~= COMMA then fail(comma, "no ',' where a netstring ends") end
    return first, comma, comma + 1
end

local function number(raw, first, after)
    local digits = raw:sub(first, after - 1)
    if not digits:match("^[1-9]%d*$") or #digits > 19 then
        fail(first, "a number is 1 to 2^63-1, in decimal digits")
    end
    local value = UInt64.new(digits)
    if value > NUMBER_MAX then fail(first, "a number is 1 to 2^63-1") end
    return value
end

-- One frame, as a table of its spans.
local function frame(raw, at)
    local one = { at = at }
    local first, comma, after = netstring(raw, at, #raw + 1)
    one.length, one.after = comma - first, after
    local head, tail, following = netstring(raw, first, comma)
    one.number, one.digits, one.digits_after = number(raw, head, tail), head, tail
    one.payload, one.payload_after, following = netstring(raw, following, comma)
    if following < comma then
        one.subject, one.subject_after, following = netstring(raw, following, comma)
    end
    if following ~= comma then fail(following, "the frame continues after its last child") end
    one.kind = 0
    if one.subject then
        one.name = raw:sub(one.subject, one.subject_after - 1)
        one.kind = OWN[one.name] or 0
    end
    return one
end

local function show_frame(tvb, tree, one)
    local function span(first, after) return tvb:range(first - 1, after - first) end
    local branch = tree:add(f.frame, span(one.at, one.after))
    branch:add(f.length, span(one.at, one.after), one.length)
    branch:add(f.kind, span(one.at, one.after), one.kind)
    if one.kind == 0 then
        branch:add(f.number, span(one.digits, one.digits_after), one.number)
        branch:add(f.payload, span(one.payload, one.payload_after))
        branch:set_text("Message " .. tostring(one.number))
    else
        branch:add(f.next, span(one.digits, one.digits_after), one.number)
        branch:set_text(string.format("%s, next is %s", KINDS[one.kind], tostring(one.number)))
    end
    if one.subject then
        branch:add(f.subject, span(one.subject, one.subject_after))
    end
end

-- The binary codec. Offsets begin at 0, as tvb has them.

local function record(tvb, at, previous)
    local left = tvb:len() - at
    if left < RECORD_SIZE then fail(at + 1, "no whole head of a record: cut off?") end
    local one = { at = at, length = tvb(at, 4):uint(), headers_size = tvb(at + 20, 4):uint() }
    one.subject_size = tvb(at + 24, 2):uint()
    if one.length > left then
        fail(at + 1, string.format("the record ends %d bytes later: cut off?", one.length - left))
    end
    one.subject = at + RECORD_SIZE
    one.headers = one.subject + one.subject_size
    one.payload = one.headers + one.headers_size
    one.after = at + one.length
    if one.payload > one.after then fail(at + 1, "a record shorter than what it says it holds") end
    one.number = tvb(at + 4, 8):uint64()
    if one.number <= previous or one.number > NUMBER_MAX then
        fail(at + 5, "numbers are in order, 1 to 2^63-1")
    end
    return one
end

local function binary(tvb)
    if tvb:len() < HEAD_SIZE then fail(tvb:len() + 1, "the head has 36 bytes: cut off?") end
    if tvb(4, 1):uint() ~= 1 then fail(5, "an unknown version") end
    local head = { kind = tvb(5, 1):uint(), count = tvb(6, 2):uint(), records = {} }
    if not KINDS[head.kind] then fail(6, "an unknown kind") end
    if (head.count == 0) ~= (head.kind ~= 0) then fail(7, "data must have messages, and other kinds must not") end
    local previous, following = tvb(16, 8):uint64(), tvb(24, 8):uint64()
    if previous >= following or following - 1 > NUMBER_MAX then
        fail(17, "next is not a valid number after previous")
    end
    local at = HEAD_SIZE
    for index = 1, head.count do
        local one = record(tvb, at, previous)
        head.records[index], at, previous = one, one.after, one.number
    end
    if at ~= tvb:len() then fail(at + 1, "bytes after the last record") end
    if head.kind == 0 and previous + 1 ~= following then
        fail(25, "the next number does not follow the last one")
    end
    return head
end

local function show_binary(tvb, tree, head)
    tree:add(f.kind, tvb(5, 1))
    tree:add(f.count, tvb(6, 2))
    tree:add(f.journal, tvb(8, 8))
    tree:add(f.previous, tvb(16, 8))
    tree:add(f.next, tvb(24, 8))
    tree:add(f.epoch, tvb(32, 4))
    for _, one in ipairs(head.records) do
        local branch = tree:add(f.frame, tvb(one.at, one.length))
        branch:set_text("Message " .. tostring(one.number))
        branch:add(f.length, tvb(one.at, 4))
        branch:add(f.number, tvb(one.at + 4, 8))
        local ns = tvb(one.at + 12, 8):uint64()
        branch:add(f.time, tvb(one.at + 12, 8),
            NSTime.new((ns / 1000000000):tonumber(), (ns % 1000000000):tonumber()))
        branch:add(f.subject, tvb(one.subject, one.subject_size))
        branch:add(f.headers, tvb(one.headers, one.headers_size))
        branch:add(f.payload, tvb(one.payload, one.after - one.payload))
    end
end

-- All of a datagram

local function is_binary(raw) return raw:sub(1, 4) == "SERI" end

-- What is in it, and what is wrong with it (nil: nothing), with the frames before that.
local function read(tvb)
    local raw = tvb:raw(0, tvb:len())
    if is_binary(raw) then
        local good, found = pcall(binary, tvb)
        return good and found or nil, not good and found or nil
    end
    local frames, at = {}, 1
    while at <= #raw do
        local good, found = pcall(frame, raw, at)
        if not good then return frames, found end
        frames[#frames + 1], at = found, found.after
    end
    for _, one in ipairs(frames) do
        local own = one.name and one.name:sub(1, 5) == "$SEQ."
        if own and (one.kind == 0 or #frames > 1 or one.payload < one.payload_after) then
            return frames, { at = one.at, why = one.name .. " is not valid here" }
        end
    end
    return frames, nil
end

local function summary(frames)
    local first, last = frames[1], frames[#frames]
    if first == nil then return "nothing" end
    local kind = first.kind or 0
    if kind ~= 0 then return KINDS[kind] .. ", next is " .. tostring(first.number) end
    if #frames == 1 then return "Message " .. tostring(first.number) end
    local span = tostring(first.number) .. " to " .. tostring(last.number)
    return string.format("%d messages, %s", #frames, span)
end

function feed.dissector(tvb, pinfo, root)
    pinfo.cols.protocol = "Seriatim"
    local tree = root:add(feed, tvb())
    local found, bad = read(tvb)
    if found and found.records then
        show_binary(tvb, tree, found)
        local text = summary(found.records)
        if found.kind ~= 0 then
            text = string.format("%s, next is %s", KINDS[found.kind], tostring(tvb(24, 8):uint64()))
        end
        pinfo.cols.info = text
    elseif found then
        for _, one in ipairs(found) do show_frame(tvb, tree, one) end
        pinfo.cols.info = summary(found)
    end
    if bad then
        local at = math.min(bad.at, tvb:len()) - 1 -- behind the last byte: at the last byte
        local text = string.format("at byte %d: %s", bad.at - 1, bad.why)
        tree:add(f.frame, tvb(at)):set_text("Malformed"):add_proto_expert_info(malformed, text)
        pinfo.cols.info = string.format("[Malformed %s]", text)
    end
    return tvb:len()
end

-- Datagrams on ports that nobody has named: only those in which every byte is right.
local function guess(tvb, pinfo, root)
    if tvb:len() < 9 then return false end
    local found, bad = read(tvb)
    if bad or not found then return false end
    feed.dissector(tvb, pinfo, root)
    return true
end

-- cquencer's port: netstrings to it, a netstring with the number back for each.

local function to_cquencer(tvb, tree, first, comma, at, after)
    if comma > first then
        tree:add(c.message, tvb(first - 1, comma - first))
    else
        tree:add(c.query, tvb(at - 1, after - at))
    end
end

local function from_cquencer(raw, tvb, tree, first, comma)
    if raw:sub(first, comma - 1) == "0" then
        tree:add(c.number, tvb(first - 1, 1), UInt64.new(0))
    else
        tree:add(c.number, tvb(first - 1, comma - first), number(raw, first, comma))
    end
end

function cquencer.dissector(tvb, pinfo, root)
    local raw, at = tvb:raw(0, tvb:len()), 1
    local replies = pinfo.src_port == pinfo.match_uint
    pinfo.cols.protocol = "cquencer"
    local tree = root:add(cquencer, tvb())
    while at <= #raw do
        local digits, colon = raw:match("^(%d*)():", at)
        local need = digits and #digits > 0 and #digits < 10 and colon + tonumber(digits) + 1
        local length_cut = not digits and raw:match("^%d+$", at) and #raw - at < 9
        if length_cut or need and need > #raw then
            pinfo.desegment_offset = at - 1
            pinfo.desegment_len = need and need - #raw or DESEGMENT_ONE_MORE_SEGMENT
            return tvb:len()
        end
        local good, bad = pcall(function()
            if not need or raw:byte(need) ~= COMMA then fail(at, "no netstring") end
            if replies then
                from_cquencer(raw, tvb, tree, colon + 1, need)
            else
                to_cquencer(tvb, tree, colon + 1, need, at, need + 1)
            end
        end)
        if not good then
            tree:add_proto_expert_info(wrong, string.format("at byte %d: %s", at - 1, bad.why))
            return tvb:len()
        end
        at = need + 1
    end
    pinfo.cols.info = replies and "Numbers" or "Messages"
    return tvb:len()
end

-- Ports

local taken = {}

local function listen(name, proto, ports)
    local there = DissectorTable.get(name)
    if taken[name] then there:remove(taken[name], proto) end
    taken[name] = nil
    if ports ~= "" then
        there:add(ports, proto)
        taken[name] = ports
    end
end

function feed.prefs_changed() listen("udp.port", feed, feed.prefs.ports) end
function cquencer.prefs_changed() listen("tcp.port", cquencer, cquencer.prefs.ports) end

DissectorTable.get("udp.port"):add_for_decode_as(feed)
DissectorTable.get("tcp.port"):add_for_decode_as(cquencer)
feed:register_heuristic("udp", guess)
