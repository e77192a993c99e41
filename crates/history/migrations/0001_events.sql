-- Events of rooms. `at` is the place of an event (ms since 1970 << 20 | counter): it grows in the order of commits in a namespace, on all
-- gateways, because a batch locks the row of each of its namespaces.

create table sockeye_history_namespaces (
    namespace text primary key,
    last bigint not null
);

-- The last batch of each gateway: one that is tried again is stored once.
create table sockeye_history_writers (
    writer bigint primary key,
    number bigint not null,
    places bigint[] not null,
    written timestamptz not null default now()
);

create table sockeye_history_events (
    namespace text not null,
    room text not null,
    at bigint not null,
    name text not null,
    args text not null,
    "user" text,
    time_ms bigint not null,
    bytes bigint not null,
    primary key (namespace, room, at)
);

create index sockeye_history_events_user on sockeye_history_events ("user", namespace) where "user" is not null;
create index sockeye_history_events_at on sockeye_history_events (at);

-- One round trip for a batch: the places of its events.
create function sockeye_history_append(
    by_writer bigint, by_number bigint,
    namespaces text[], rooms text[], names text[], arguments text[], users text[], times bigint[], sizes bigint[]
) returns bigint[] language plpgsql as $$
declare
    known sockeye_history_writers;
    place bigint;
    given bigint[] := '{}';
    lasts jsonb := '{}';
    one text;
    -- A gateway whose clock is ahead does not move all places: a minute is more than clocks differ.
    latest bigint := extract(epoch from clock_timestamp())::bigint * 1000 + 60000;
begin
    insert into sockeye_history_writers (writer, number, places) values (by_writer, -1, '{}') on conflict do nothing;
    -- A first attempt may still be under way: this waits for it.
    select * into known from sockeye_history_writers where writer = by_writer for update;
    if known.number = by_number then
        return known.places;
    end if;
    -- Given up by its writer, which has gone on: another attempt stored it.
    if known.number > by_number then
        raise exception 'an attempt that came too late';
    end if;
    -- In one order for all gateways, so that two of them never wait for each other.
    for one in select distinct unnest(namespaces) order by 1 loop
        insert into sockeye_history_namespaces (namespace, last) values (one, 0) on conflict do nothing;
        select last into place from sockeye_history_namespaces where sockeye_history_namespaces.namespace = one for update;
        lasts := jsonb_set(lasts, array[one], to_jsonb(place));
    end loop;
    for i in 1 .. array_length(namespaces, 1) loop
        place := greatest((lasts ->> namespaces[i])::bigint + 1, least(times[i], latest) << 20);
        lasts := jsonb_set(lasts, array[namespaces[i]], to_jsonb(place));
        given := given || place;
    end loop;
    insert into sockeye_history_events (namespace, room, at, name, args, "user", time_ms, bytes)
    select * from unnest(namespaces, rooms, given, names, arguments, users, times, sizes);
    update sockeye_history_namespaces set last = (lasts ->> namespace)::bigint where namespace = any (namespaces);
    update sockeye_history_writers set number = by_number, places = given, written = now()
    where writer = by_writer;
    return given;
end $$;
